// What masks are made of, by OpenSSL: keys that two agree on, sealed letters, streams of words and
// signatures. Keys, secrets and letters are strings of bytes.
#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "winnow/net/pki/openssl.h"

namespace winnow::mask {

inline constexpr std::size_t kKeyBytes = 32;   // of keys, secrets and seeds
inline constexpr std::size_t kSealBytes = 16;  // by which a sealed letter is longer

// From the system's generator.
std::string random_bytes(std::size_t count);

// X25519.
struct KeyPair {
  std::string secret;
  std::string known;  // the part that everybody may see
};
KeyPair make_pair();
std::string known_part(const std::string& secret);
// What both ends get from their own secret and the other's known part. Throws Error(kind peer)
// where that is no key.
std::string agree(const std::string& secret, const std::string& known);

// Another key for another purpose: HKDF with SHA-256.
std::string derived(const std::string& secret, const std::string& purpose);

// AES-256-GCM without a nonce: a key is for one letter. Throws Error(kind peer) where a letter was
// not sealed with this key or was changed.
std::string sealed(const std::string& key, const std::string& letter);
std::string unsealed(const std::string& key, const std::string& sealed);

// Words from a key, as many as are asked for, by AES-256 in counter mode; little-endian.
class MaskStream {
 public:
  explicit MaskStream(const std::string& key);

  // The next words, modulo 2^64.
  void add_to(std::span<std::uint64_t> words) { apply(words, false); }
  void take_from(std::span<std::uint64_t> words) { apply(words, true); }

 private:
  void apply(std::span<std::uint64_t> words, bool subtract);

  std::unique_ptr<EVP_CIPHER_CTX, pki::Releases<EVP_CIPHER_CTX_free>> cipher_;
};

// By the key of a certificate, with SHA-256; all are PEM texts.
std::string signature_of(const std::string& text, const std::string& key);
bool is_signed(const std::string& text, const std::string& signature,
               const std::string& certificate);

}  // namespace winnow::mask
