// What a certificate says, and whether an authority stands behind it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/net/pki/openssl.h"

namespace winnow::pki {

enum class CertificateKind { authority, client, server, other };

// "a member's certificate" and so on.
const char* kind_text(CertificateKind kind);

struct Facts {
  CertificateKind kind = CertificateKind::other;
  std::string title;               // the subject's common name; empty: none that can be shown
  std::string federation;          // id of the federation; empty: it is of none
  std::string name;                // of a member
  std::vector<std::string> hosts;  // host names and addresses of a server
  std::int64_t begins = 0;
  std::int64_t expires = 0;
  std::string fingerprint;

  // What people call it: its name, its first host or its title.
  std::string label() const;
};

// Throws Error where extensions are damaged, names of federations are malformed or there are
// several: who somebody is must have one answer.
Facts facts_of(X509& certificate, const Whose& whose);

// Whether the signature is by ECDSA in the one of its two forms that our authorities use. Anybody
// can turn one form into the other; the certificate would be as good and have another fingerprint,
// under which it is not revoked.
bool has_our_signature(const X509& certificate);

// Why the certificate does not hold, as a code of X509_verify_cert(), without a look at the clock;
// X509_V_OK: it does. With a purpose (X509_PURPOSE_SSL_CLIENT, say) it must be made for that too.
int chain_fault(X509& certificate, X509& authority, int purpose = 0);

bool key_fits(X509& certificate, EVP_PKEY& key);

// "winnow:FEDERATION-ID" and "winnow:FEDERATION-ID/NAME", the names in certificates.
std::string federation_uri(const std::string& federation);
std::string member_uri(const std::string& federation, const std::string& name);

// The common name of a subject; empty where there is none, several, or one that cannot be shown.
std::string common_name(const X509_NAME& subject);

}  // namespace winnow::pki
