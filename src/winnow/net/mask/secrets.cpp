#include "winnow/net/mask/secrets.h"

#include <openssl/kdf.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "winnow/base/error.h"

namespace winnow::mask {
namespace {

using pki::must;
using pki::must_have;
using PkeyContext = std::unique_ptr<EVP_PKEY_CTX, pki::Releases<EVP_PKEY_CTX_free>>;
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, pki::Releases<EVP_CIPHER_CTX_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, pki::Releases<EVP_MD_CTX_free>>;

static_assert(std::endian::native == std::endian::little, "masks are little-endian");

constexpr std::size_t kNonce = 12;

unsigned char* raw(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

const unsigned char* raw(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

pki::Key secret_key(const std::string& secret) {
  return pki::Key(
      must_have(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, raw(secret), secret.size()),
                "read a key"));
}

}  // namespace

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  must(RAND_bytes(raw(bytes), static_cast<int>(count)) == 1, "draw random bytes");
  return bytes;
}

KeyPair make_pair() {
  std::string secret = random_bytes(kKeyBytes);
  std::string known = known_part(secret);
  return {std::move(secret), std::move(known)};
}

std::string known_part(const std::string& secret) {
  const pki::QuietErrors quiet;
  const pki::Key key = secret_key(secret);
  std::string known(kKeyBytes, '\0');
  std::size_t size = known.size();
  must(EVP_PKEY_get_raw_public_key(key.get(), raw(known), &size) == 1 && size == kKeyBytes,
       "write a key");
  return known;
}

std::string agree(const std::string& secret, const std::string& known) {
  const pki::QuietErrors quiet;
  const pki::Key own = secret_key(secret);
  const pki::Key other(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, raw(known), known.size()));
  const PkeyContext context(must_have(EVP_PKEY_CTX_new(own.get(), nullptr), "agree on a key"));
  std::string shared(kKeyBytes, '\0');
  std::size_t size = shared.size();
  // It fails for the few known parts that would give zero with every secret.
  if (other == nullptr || EVP_PKEY_derive_init(context.get()) != 1 ||
      EVP_PKEY_derive_set_peer(context.get(), other.get()) != 1 ||
      EVP_PKEY_derive(context.get(), raw(shared), &size) != 1 || size != kKeyBytes) {
    throw Error(ErrorKind::peer, "a member's key for masks is no key");
  }
  return shared;
}

std::string derived(const std::string& secret, const std::string& purpose) {
  const pki::QuietErrors quiet;
  const PkeyContext context(must_have(EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr), "derive a key"));
  std::string key(kKeyBytes, '\0');
  std::size_t size = key.size();
  must(EVP_PKEY_derive_init(context.get()) == 1 &&
           EVP_PKEY_CTX_set_hkdf_md(context.get(), EVP_sha256()) == 1 &&
           EVP_PKEY_CTX_set1_hkdf_key(context.get(), raw(secret),
                                      static_cast<int>(secret.size())) == 1 &&
           EVP_PKEY_CTX_add1_hkdf_info(context.get(), raw(purpose),
                                       static_cast<int>(purpose.size())) == 1 &&
           EVP_PKEY_derive(context.get(), raw(key), &size) == 1 && size == kKeyBytes,
       "derive a key");
  return key;
}

std::string sealed(const std::string& key, const std::string& letter) {
  const pki::QuietErrors quiet;
  const CipherContext context(must_have(EVP_CIPHER_CTX_new(), "seal a letter"));
  const std::string nonce(kNonce, '\0');
  std::string sealed(letter.size() + kSealBytes, '\0');
  int size = 0;
  int rest = 0;
  must(EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, raw(key), raw(nonce)) == 1 &&
           EVP_EncryptUpdate(context.get(), raw(sealed), &size, raw(letter),
                             static_cast<int>(letter.size())) == 1 &&
           EVP_EncryptFinal_ex(context.get(), raw(sealed) + size, &rest) == 1 &&
           EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(kSealBytes),
                               raw(sealed) + letter.size()) == 1,
       "seal a letter");
  return sealed;
}

std::string unsealed(const std::string& key, const std::string& sealed) {
  const pki::QuietErrors quiet;
  const CipherContext context(must_have(EVP_CIPHER_CTX_new(), "open a letter"));
  const std::string nonce(kNonce, '\0');
  const std::size_t length = sealed.size() < kSealBytes ? 0 : sealed.size() - kSealBytes;
  std::string tag = sealed.substr(length);
  std::string letter(length, '\0');
  int size = 0;
  int rest = 0;
  if (tag.size() != kSealBytes ||
      EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, raw(key), raw(nonce)) != 1 ||
      EVP_DecryptUpdate(context.get(), raw(letter), &size, raw(sealed), static_cast<int>(length)) !=
          1 ||
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, static_cast<int>(kSealBytes),
                          raw(tag)) != 1 ||
      EVP_DecryptFinal_ex(context.get(), raw(letter) + size, &rest) != 1) {
    throw Error(ErrorKind::peer, "a sealed share was not made for this member or was changed");
  }
  return letter;
}

MaskStream::MaskStream(const std::string& key)
    : cipher_(must_have(EVP_CIPHER_CTX_new(), "make a mask")) {
  const std::string start(16, '\0');
  must(EVP_EncryptInit_ex(cipher_.get(), EVP_aes_256_ctr(), nullptr, raw(key), raw(start)) == 1,
       "make a mask");
}

void MaskStream::apply(std::span<std::uint64_t> words, bool subtract) {
  constexpr std::size_t kAtOnce = 4096;
  static const std::vector<std::uint64_t> zeros(kAtOnce);
  std::array<std::uint64_t, kAtOnce> stream{};
  while (!words.empty()) {
    const std::size_t count = std::min(words.size(), kAtOnce);
    int written = 0;
    must(EVP_EncryptUpdate(cipher_.get(), reinterpret_cast<unsigned char*>(stream.data()), &written,
                           reinterpret_cast<const unsigned char*>(zeros.data()),
                           static_cast<int>(8 * count)) == 1 &&
             written == static_cast<int>(8 * count),
         "make a mask");
    for (std::size_t i = 0; i < count; ++i) {
      words[i] += subtract ? 0 - stream[i] : stream[i];
    }
    words = words.subspan(count);
  }
}

std::string signature_of(const std::string& text, const std::string& key) {
  const pki::QuietErrors quiet;
  const pki::Key own = pki::parse_key(key, {"the member's key"});
  const DigestContext context(must_have(EVP_MD_CTX_new(), "sign"));
  std::size_t size = 0;
  must(EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, own.get()) == 1 &&
           EVP_DigestSign(context.get(), nullptr, &size, raw(text), text.size()) == 1,
       "sign");
  std::string signature(size, '\0');
  must(EVP_DigestSign(context.get(), raw(signature), &size, raw(text), text.size()) == 1, "sign");
  signature.resize(size);
  return signature;
}

bool is_signed(const std::string& text, const std::string& signature,
               const std::string& certificate) {
  const pki::QuietErrors quiet;
  const pki::Certificate signer =
      pki::parse_certificate(certificate, {"a member's certificate", ErrorKind::peer});
  EVP_PKEY* key = X509_get0_pubkey(signer.get());
  const DigestContext context(must_have(EVP_MD_CTX_new(), "look at a signature"));
  return key != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key) == 1 &&
         EVP_DigestVerify(context.get(), raw(signature), signature.size(), raw(text),
                          text.size()) == 1;
}

}  // namespace winnow::mask
