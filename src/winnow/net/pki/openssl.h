// The objects of OpenSSL that this room uses, with owners, and PEM texts of bounded size.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "winnow/base/error.h"

namespace winnow::pki {

template <auto Release>
struct Releases {
  template <typename Object>
  void operator()(Object* object) const {
    Release(object);
  }
};
using Certificate = std::unique_ptr<X509, Releases<X509_free>>;
using Request = std::unique_ptr<X509_REQ, Releases<X509_REQ_free>>;
using Key = std::unique_ptr<EVP_PKEY, Releases<EVP_PKEY_free>>;
using Bio = std::unique_ptr<BIO, Releases<BIO_free_all>>;

// Certificates have one or two KiB. What is larger is not parsed.
inline constexpr std::size_t kLongestPem = 64 * 1024;

// Takes back what OpenSSL has added to the thread's list of errors: others, gRPC among them, look
// at that list too.
class QuietErrors {
 public:
  QuietErrors() { ERR_set_mark(); }
  ~QuietErrors() { ERR_pop_to_mark(); }
  QuietErrors(const QuietErrors&) = delete;
  QuietErrors& operator=(const QuietErrors&) = delete;
};

// Throws Error(kind run) with OpenSSL's reason unless `done`.
void must(bool done, std::string_view doing);
template <typename Object>
Object* must_have(Object* object, std::string_view doing) {
  must(object != nullptr, doing);
  return object;
}

// What a fault in a text is reported as: whose text it is ("member.pem") and of which kind.
struct Whose {
  std::string name;
  ErrorKind kind = ErrorKind::usage;
};

// Exactly one certificate, request or key; what else the text holds is not looked at.
Certificate parse_certificate(std::string_view pem, const Whose& whose);
Request parse_request(std::string_view pem, const Whose& whose);
Key parse_key(std::string_view pem, const Whose& whose);

std::string pem_of(X509& certificate);
std::string pem_of(X509_REQ& request);
std::string pem_of(EVP_PKEY& key);

Key make_key();  // EC P-256

// SHA-256 of the public key as certificates have it, in hexadecimal.
std::string digest_of(EVP_PKEY& key);

// The whole file; throws Error(kind run) where it cannot be read or is too large for one of ours.
std::string read_pem_file(const std::filesystem::path& path);
// The same for a key, which nobody but its owner may be able to read.
std::string read_key_file(const std::filesystem::path& path);

std::int64_t seconds_now();                // since 1970
std::string date_text(std::int64_t time);  // "2026-10-21 08:00 UTC"

}  // namespace winnow::pki
