#include "winnow/net/pki/identity.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/net/pki/certificate.h"

namespace winnow {
namespace {

// Not of the locale.
bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

bool is_member_name(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  return !text.empty() && text.size() <= kLongest && is_letter_or_digit(text.front()) &&
         std::ranges::all_of(text, [](char c) {
           return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.';
         });
}

void check_member_name(std::string_view text) {
  if (!is_member_name(text)) {
    throw Error(ErrorKind::usage, fmt::format("'{}' cannot be the name of a member", text),
                "use letters, digits, '-', '_' and '.', at most 64, beginning with a letter or a "
                "digit");
  }
}

Identity identity_of(const std::string& certificate_pem) {
  const pki::Whose whose{"the peer's certificate", ErrorKind::peer};
  const pki::Certificate certificate = pki::parse_certificate(certificate_pem, whose);
  pki::Facts facts = pki::facts_of(*certificate, whose);
  if (facts.kind != pki::CertificateKind::client) {
    throw Error(ErrorKind::peer, fmt::format("the peer has shown {}, not a member's certificate",
                                             pki::kind_text(facts.kind)));
  }
  if (facts.federation.empty() || facts.name.empty()) {
    throw Error(ErrorKind::peer, "the peer's certificate names no member of a federation");
  }
  if (!pki::has_our_signature(*certificate)) {
    throw Error(ErrorKind::peer,
                "the signature of the peer's certificate is not as authorities of Winnow make it");
  }
  return {std::move(facts.federation), std::move(facts.name), std::move(facts.fingerprint)};
}

}  // namespace winnow
