#include "winnow/net/pki/certificate.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/ec.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "winnow/base/json.h"
#include "winnow/net/pki/identity.h"

namespace winnow::pki {
namespace {

constexpr std::string_view kScheme = "winnow:";
constexpr std::size_t kFederationDigits = 32;
constexpr std::size_t kLongestShown = 255;

using Names = std::unique_ptr<GENERAL_NAMES, Releases<GENERAL_NAMES_free>>;
using Signature = std::unique_ptr<ECDSA_SIG, Releases<ECDSA_SIG_free>>;
using Group = std::unique_ptr<EC_GROUP, Releases<EC_GROUP_free>>;
using Number = std::unique_ptr<BIGNUM, Releases<BN_free>>;
using Store = std::unique_ptr<X509_STORE, Releases<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Releases<X509_STORE_CTX_free>>;

[[noreturn]] void refuse_certificate(const Whose& whose, std::string_view why) {
  throw Error(whose.kind, fmt::format("{}: {}", whose.name, why));
}

std::string_view bytes_of(const ASN1_STRING& string) {
  const auto* data = reinterpret_cast<const char*>(ASN1_STRING_get0_data(&string));
  return {data, static_cast<std::size_t>(ASN1_STRING_length(&string))};
}

bool can_be_shown(std::string_view text) {
  return !text.empty() && text.size() <= kLongestShown && is_utf8(text) &&
         std::ranges::none_of(text, [](unsigned char c) { return c < 32 || c == 127; });
}

// A host name or a URI is ASCII without blanks.
bool is_graphic(std::string_view text) {
  return can_be_shown(text) && std::ranges::all_of(text, [](char c) { return c > 32 && c < 127; });
}

std::int64_t time_in(const ASN1_TIME* time, const Whose& whose) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) {
    refuse_certificate(whose, "a date in it is damaged");
  }
  return static_cast<std::int64_t>(::timegm(&parts));
}

std::string address_text(std::string_view bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = bytes.size() == 4 ? AF_INET : AF_INET6;
  if ((bytes.size() != 4 && bytes.size() != 16) ||
      ::inet_ntop(family, bytes.data(), text.data(), text.size()) == nullptr) {
    return "";
  }
  return text.data();
}

void read_uri(std::string_view uri, const Whose& whose, Facts& facts) {
  if (!uri.starts_with(kScheme)) {
    return;
  }
  if (!facts.federation.empty()) {
    refuse_certificate(whose, "it names more than one federation");
  }
  const std::string_view rest = uri.substr(kScheme.size());
  const std::size_t slash = rest.find('/');
  const std::string_view federation = rest.substr(0, slash);
  if (federation.size() != kFederationDigits ||
      federation.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    refuse_certificate(whose, "the id of the federation in it is malformed");
  }
  facts.federation = federation;
  if (slash != std::string_view::npos) {
    facts.name = rest.substr(slash + 1);
    if (!is_member_name(facts.name)) {
      refuse_certificate(whose, "the name of the member in it is malformed");
    }
  }
}

void read_names(X509& certificate, const Whose& whose, Facts& facts) {
  int found = 0;  // -1: there are none; -2: there are several lists
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, &found, nullptr)));
  if (names == nullptr) {
    if (found != -1) {
      refuse_certificate(whose, "the names in it are damaged");
    }
    return;
  }
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_URI) {
      read_uri(bytes_of(*name->d.uniformResourceIdentifier), whose, facts);
    } else if (name->type == GEN_DNS) {
      if (const std::string_view host = bytes_of(*name->d.dNSName); is_graphic(host)) {
        facts.hosts.emplace_back(host);
      }
    } else if (name->type == GEN_IPADD) {
      if (std::string address = address_text(bytes_of(*name->d.iPAddress)); !address.empty()) {
        facts.hosts.push_back(std::move(address));
      }
    }
  }
}

CertificateKind kind_of(X509& certificate) {
  if (X509_check_ca(&certificate) == 1) {
    return CertificateKind::authority;
  }
  if ((X509_get_extension_flags(&certificate) & EXFLAG_XKUSAGE) != 0) {
    const std::uint32_t usage = X509_get_extended_key_usage(&certificate);
    if (usage == XKU_SSL_CLIENT) {
      return CertificateKind::client;
    }
    if (usage == XKU_SSL_SERVER) {
      return CertificateKind::server;
    }
  }
  return CertificateKind::other;
}

}  // namespace

const char* kind_text(CertificateKind kind) {
  switch (kind) {
    case CertificateKind::authority:
      return "the certificate of an authority";
    case CertificateKind::client:
      return "a member's certificate";
    case CertificateKind::server:
      return "a server's certificate";
    case CertificateKind::other:
      break;
  }
  return "a certificate for something else";
}

std::string Facts::label() const {
  if (kind == CertificateKind::client && !name.empty()) {
    return name;
  }
  return kind == CertificateKind::server && !hosts.empty() ? hosts.front() : title;
}

Facts facts_of(X509& certificate, const Whose& whose) {
  const QuietErrors quiet;
  // Also makes OpenSSL look at the extensions.
  if ((X509_get_extension_flags(&certificate) & EXFLAG_INVALID) != 0) {
    refuse_certificate(whose, "it is damaged");
  }
  Facts facts;
  facts.kind = kind_of(certificate);
  facts.title = common_name(*X509_get_subject_name(&certificate));
  read_names(certificate, whose, facts);
  facts.begins = time_in(X509_get0_notBefore(&certificate), whose);
  facts.expires = time_in(X509_get0_notAfter(&certificate), whose);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  must(X509_digest(&certificate, EVP_sha256(), digest.data(), &size) == 1, "hash a certificate");
  for (unsigned i = 0; i < size; ++i) {
    facts.fingerprint += fmt::format("{:02x}", digest[i]);
  }
  return facts;
}

bool has_our_signature(const X509& certificate) {
  const QuietErrors quiet;
  if (X509_get_signature_nid(&certificate) != NID_ecdsa_with_SHA256) {
    return false;
  }
  const ASN1_BIT_STRING* bits = nullptr;
  const X509_ALGOR* algorithm = nullptr;
  X509_get0_signature(&bits, &algorithm, &certificate);
  const unsigned char* data = ASN1_STRING_get0_data(bits);
  const Signature signature(d2i_ECDSA_SIG(nullptr, &data, ASN1_STRING_length(bits)));
  if (signature == nullptr) {
    return false;
  }
  // Where (r, s) is a signature, (r, n - s) is one too; ours have the smaller s.
  const Group group(must_have(EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1), "find P-256"));
  const Number twice(must_have(BN_new(), "compute"));
  must(BN_lshift1(twice.get(), ECDSA_SIG_get0_s(signature.get())) == 1, "compute");
  return BN_cmp(twice.get(), EC_GROUP_get0_order(group.get())) <= 0;
}

int chain_fault(X509& certificate, X509& authority, int purpose) {
  const QuietErrors quiet;
  const Store store(must_have(X509_STORE_new(), "check a certificate"));
  const StoreContext context(must_have(X509_STORE_CTX_new(), "check a certificate"));
  must(X509_STORE_add_cert(store.get(), &authority) == 1, "check a certificate");
  must(X509_STORE_CTX_init(context.get(), store.get(), &certificate, nullptr) == 1,
       "check a certificate");
  X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_NO_CHECK_TIME);
  if (purpose != 0) {
    must(X509_STORE_CTX_set_purpose(context.get(), purpose) == 1, "check a certificate");
  }
  if (X509_verify_cert(context.get()) == 1) {
    return X509_V_OK;
  }
  const int fault = X509_STORE_CTX_get_error(context.get());
  return fault == X509_V_OK ? X509_V_ERR_UNSPECIFIED : fault;
}

bool key_fits(X509& certificate, EVP_PKEY& key) {
  const QuietErrors quiet;
  return X509_check_private_key(&certificate, &key) == 1;
}

std::string federation_uri(const std::string& federation) {
  return fmt::format("{}{}", kScheme, federation);
}

std::string member_uri(const std::string& federation, const std::string& name) {
  return fmt::format("{}{}/{}", kScheme, federation, name);
}

std::string common_name(const X509_NAME& subject) {
  const int at = X509_NAME_get_index_by_NID(&subject, NID_commonName, -1);
  if (at < 0 || X509_NAME_get_index_by_NID(&subject, NID_commonName, at) >= 0) {
    return "";
  }
  unsigned char* bytes = nullptr;
  const int size =
      ASN1_STRING_to_UTF8(&bytes, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(&subject, at)));
  if (size < 0) {
    return "";
  }
  const std::string text(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  OPENSSL_free(bytes);
  return can_be_shown(text) ? text : "";
}

}  // namespace winnow::pki
