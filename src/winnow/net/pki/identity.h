// Who a peer is, by the certificate it has shown.
#pragma once

#include <string>
#include <string_view>

namespace winnow {

struct Identity {
  std::string federation;   // id of its authority
  std::string name;         // the member's name in it
  std::string fingerprint;  // SHA-256 of the certificate's DER form, in hexadecimal
};

// Of a member's certificate in PEM form, as gRPC's auth context has it ("x509_pem_cert"). The
// certificate must be one for a client and carry the name "winnow:FEDERATION-ID/NAME". Whether the
// authority has signed it is for TLS to check. Throws Error(kind peer).
Identity identity_of(const std::string& certificate_pem);

// Whether a text can be the name of a member: ASCII letters, digits, '-', '_' and '.', at most 64,
// beginning with a letter or a digit. So it is also a safe name for a file.
bool is_member_name(std::string_view text);

// Throws Error(kind usage) unless it can.
void check_member_name(std::string_view text);

}  // namespace winnow
