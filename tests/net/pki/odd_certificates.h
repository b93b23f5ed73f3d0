// Certificates and requests that no authority of ours would make.
#pragma once

#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/x509v3.h>

#include <string>
#include <vector>

#include "winnow/net/pki/certificate.h"
#include "winnow/net/pki/openssl.h"

namespace winnow {

inline const std::string kSomeFederation = "0123456789abcdef0123456789abcdef";

struct Odd {
  std::vector<std::string> uris = {"winnow:" + kSomeFederation + "/hospital-a"};
  std::string purpose = "clientAuth";  // empty: none
  std::string name = "hospital-a";
};

inline void add_uris(X509& certificate, const std::vector<std::string>& uris) {
  GENERAL_NAMES* names = GENERAL_NAMES_new();
  for (const std::string& uri : uris) {
    ASN1_IA5STRING* text = ASN1_IA5STRING_new();
    ASN1_STRING_set(text, uri.data(), static_cast<int>(uri.size()));
    GENERAL_NAME* name = GENERAL_NAME_new();
    GENERAL_NAME_set0_value(name, GEN_URI, text);
    sk_GENERAL_NAME_push(names, name);
  }
  EXPECT_EQ(X509_add1_ext_i2d(&certificate, NID_subject_alt_name, names, 0, X509V3_ADD_APPEND), 1);
  GENERAL_NAMES_free(names);
}

// Signed by its own key.
inline std::string odd_certificate(const Odd& odd) {
  const pki::Key key = pki::make_key();
  const pki::Certificate certificate(X509_new());
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 7);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_NAME_add_entry_by_NID(X509_get_subject_name(certificate.get()), NID_commonName,
                             MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(odd.name.data()),
                             static_cast<int>(odd.name.size()), -1, 0);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
  X509_set_pubkey(certificate.get(), key.get());
  if (!odd.purpose.empty()) {
    X509_EXTENSION* purpose =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_ext_key_usage, odd.purpose.c_str());
    X509_add_ext(certificate.get(), purpose, -1);
    X509_EXTENSION_free(purpose);
  }
  if (!odd.uris.empty()) {
    add_uris(*certificate, odd.uris);
  }
  do {
    X509_sign(certificate.get(), key.get(), EVP_sha256());
  } while (!pki::has_our_signature(*certificate));
  return pki::pem_of(*certificate);
}

inline std::string der_of(X509& certificate) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(&certificate, &bytes);
  std::string der(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  OPENSSL_free(bytes);
  return der;
}

// The same certificate with the signature (r, n - s) in place of (r, s): as good for TLS.
inline std::string with_other_signature(const std::string& pem) {
  const pki::Certificate certificate = pki::parse_certificate(pem, {"it"});
  const ASN1_BIT_STRING* bits = nullptr;
  const X509_ALGOR* algorithm = nullptr;
  X509_get0_signature(&bits, &algorithm, certificate.get());
  const std::string old_bytes(reinterpret_cast<const char*>(ASN1_STRING_get0_data(bits)),
                              static_cast<std::size_t>(ASN1_STRING_length(bits)));
  const unsigned char* data = ASN1_STRING_get0_data(bits);
  ECDSA_SIG* signature = d2i_ECDSA_SIG(nullptr, &data, ASN1_STRING_length(bits));
  EC_GROUP* group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
  BIGNUM* r = BN_dup(ECDSA_SIG_get0_r(signature));
  BIGNUM* s = BN_new();
  BN_sub(s, EC_GROUP_get0_order(group), ECDSA_SIG_get0_s(signature));
  ECDSA_SIG_set0(signature, r, s);
  unsigned char* bytes = nullptr;
  const int size = i2d_ECDSA_SIG(signature, &bytes);
  ASN1_BIT_STRING* changed = const_cast<ASN1_BIT_STRING*>(bits);
  ASN1_STRING_set(changed, bytes, size);
  OPENSSL_free(bytes);
  ECDSA_SIG_free(signature);
  EC_GROUP_free(group);
  return pki::pem_of(*certificate);
}

// A request by a key of its own, for that common name; with extensions that ask for more.
inline std::string odd_request(const std::string& name, EVP_PKEY& key,
                               const std::string& constraints = "") {
  const pki::Request request(X509_REQ_new());
  X509_NAME_add_entry_by_NID(X509_REQ_get_subject_name(request.get()), NID_commonName,
                             MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(name.data()),
                             static_cast<int>(name.size()), -1, 0);
  X509_REQ_set_pubkey(request.get(), &key);
  if (!constraints.empty()) {
    STACK_OF(X509_EXTENSION)* extensions = sk_X509_EXTENSION_new_null();
    sk_X509_EXTENSION_push(extensions, X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints,
                                                           constraints.c_str()));
    X509_REQ_add_extensions(request.get(), extensions);
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
  }
  const int kind = EVP_PKEY_get_base_id(&key);
  X509_REQ_sign(request.get(), &key, kind == EVP_PKEY_ED25519 ? nullptr : EVP_sha256());
  return pki::pem_of(*request);
}

}  // namespace winnow
