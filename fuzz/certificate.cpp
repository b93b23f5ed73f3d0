// What somebody without a certificate of ours, or with an odd one, may show: the request that
// `winnow pki sign` reads, the certificate of a peer, and a list of revoked ones. The first byte
// says which; requests and certificates follow in DER form, or as the whole text.
#include <fmt/format.h>
#include <openssl/evp.h>

#include <vector>

#include "target.h"
#include "winnow/net/pki/authority.h"
#include "winnow/net/pki/identity.h"
#include "winnow/net/pki/openssl.h"
#include "winnow/net/pki/request.h"
#include "winnow/net/pki/revocations.h"

using namespace winnow;

namespace {

constexpr std::size_t kHexOfSha256 = 64;
constexpr std::size_t kHexOfFederation = 32;

std::string pem_text(const std::string& what, std::string_view der) {
  std::vector<unsigned char> encoded(der.size() / 3 * 4 + 5);
  const int size =
      EVP_EncodeBlock(encoded.data(), reinterpret_cast<const unsigned char*>(der.data()),
                      static_cast<int>(der.size()));
  const std::string_view digits(reinterpret_cast<const char*>(encoded.data()),
                                static_cast<std::size_t>(size));
  constexpr std::size_t kColumns = 64;
  std::string text = fmt::format("-----BEGIN {}-----\n", what);
  for (std::size_t begin = 0; begin < digits.size(); begin += kColumns) {
    text += std::string(digits.substr(begin, kColumns)) + "\n";
  }
  return text + fmt::format("-----END {}-----\n", what);
}

bool is_hex(const std::string& text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The same request by a key that has really signed it: otherwise no changed one gets that far.
std::string signed_again(const std::string& pem) {
  static const pki::Key key = pki::make_key();
  const pki::QuietErrors quiet;
  const pki::Request request = pki::parse_request(pem, {"it"});
  if (X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) <= 0) {
    return pem;
  }
  return pki::pem_of(*request);
}

void read_as_operator(const std::string& pem) {
  static const fuzz::Scratch scratch;
  static Authority authority = Authority::create(scratch.path() / "authority", "fuzz");
  const RequestedName requested = read_request(pem);
  fuzz::require(is_member_name(requested.name), "a request is for the name of a member");
  fuzz::require(is_hex(requested.key_digest, kHexOfSha256), "a key has a digest");
  const Identity made = identity_of(authority.sign(pem));
  std::filesystem::remove(scratch.path() / "authority/issued/clients" / (requested.name + ".pem"));
  fuzz::require(made.name == requested.name && made.federation == authority.federation(),
                "what is signed is a member's certificate of that name and nothing else");
}

void read_as_server(const std::string& pem) {
  const Identity who = identity_of(pem);
  fuzz::require(is_member_name(who.name), "a member has a name");
  fuzz::require(is_hex(who.federation, kHexOfFederation), "it is of a federation");
  fuzz::require(is_hex(who.fingerprint, kHexOfSha256), "it has a fingerprint");
}

void read_list(std::string_view text) {
  static const fuzz::Scratch scratch;
  Revocations list(scratch.put("revoked.txt", text));
  fuzz::require(list.problem().empty(), "a list that is taken has no fault");
  const std::string first(text.substr(0, kHexOfSha256));
  const bool alone = text.size() <= kHexOfSha256 || text[kHexOfSha256] == '\n';
  if (is_hex(first, kHexOfSha256) && alone) {
    fuzz::require(list.contains(first), "what stands in the list is revoked");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t kind = input.byte();
  const std::string_view rest = input.rest();
  switch (kind) {
    case 'r': {
      const std::string pem = pem_text("CERTIFICATE REQUEST", rest);
      fuzz::only_errors([&] { read_as_operator(pem); });
      return fuzz::only_errors([&] { read_as_operator(signed_again(pem)); });
    }
    case 'c':
      return fuzz::only_errors([&] { read_as_server(pem_text("CERTIFICATE", rest)); });
    case 'R':
      return fuzz::only_errors([&] { read_as_operator(std::string(rest)); });
    case 'C':
      return fuzz::only_errors([&] { read_as_server(std::string(rest)); });
    default:
      return fuzz::only_errors([&] { read_list(rest); });
  }
}
