#include "winnow/net/pki/openssl.h"

#include <fmt/format.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <array>
#include <ctime>

#include "winnow/base/files.h"
#include "winnow/base/sha256.h"

namespace winnow::pki {
namespace {

Bio reader_of(std::string_view pem, const Whose& whose) {
  if (pem.size() > kLongestPem) {
    throw Error(whose.kind, fmt::format("{} has {} bytes, more than the {} allowed", whose.name,
                                        pem.size(), kLongestPem));
  }
  return Bio(must_have(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), "read a text"));
}

std::string taken_from(BIO& bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(&bio, &bytes);
  return size > 0 ? std::string(bytes, static_cast<std::size_t>(size)) : std::string();
}

Bio writer() {
  return Bio(must_have(BIO_new(BIO_s_mem()), "write a text"));
}

bool mentions(std::string_view pem, std::string_view words) {
  return pem.find(words) != std::string_view::npos;
}

[[noreturn]] void refuse_text(std::string_view pem, const Whose& whose, std::string_view wanted) {
  std::string hint;
  if (mentions(pem, "BEGIN CERTIFICATE REQUEST") && wanted != "request for a certificate") {
    hint = "it is a request: the operator turns it into a certificate with 'winnow pki sign'";
  } else if (mentions(pem, "PRIVATE KEY") && wanted != "private key") {
    hint = "it is a private key: keep it to yourself";
  } else if (mentions(pem, "BEGIN CERTIFICATE-----") && wanted != "certificate") {
    hint = "it is a certificate";
  }
  throw Error(whose.kind, fmt::format("{} is no {} in PEM form", whose.name, wanted), hint);
}

// Without it OpenSSL would ask for a passphrase on the terminal.
int no_passphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) {
  return -1;
}

}  // namespace

void must(bool done, std::string_view doing) {
  if (done) {
    return;
  }
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_peek_last_error(), reason.data(), reason.size());
  throw Error(ErrorKind::run, fmt::format("OpenSSL cannot {}: {}", doing, reason.data()));
}

Certificate parse_certificate(std::string_view pem, const Whose& whose) {
  const QuietErrors quiet;
  const Bio bio = reader_of(pem, whose);
  Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr));
  if (certificate == nullptr) {
    refuse_text(pem, whose, "certificate");
  }
  if (Certificate(PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr)) != nullptr) {
    throw Error(whose.kind, fmt::format("{} has more than one certificate", whose.name),
                "leave only the right one in the file");
  }
  return certificate;
}

Request parse_request(std::string_view pem, const Whose& whose) {
  const QuietErrors quiet;
  const Bio bio = reader_of(pem, whose);
  Request request(PEM_read_bio_X509_REQ(bio.get(), nullptr, no_passphrase, nullptr));
  if (request == nullptr) {
    refuse_text(pem, whose, "request for a certificate");
  }
  return request;
}

Key parse_key(std::string_view pem, const Whose& whose) {
  const QuietErrors quiet;
  const Bio bio = reader_of(pem, whose);
  if (mentions(pem, "ENCRYPTED")) {
    throw Error(whose.kind, fmt::format("{} is encrypted with a passphrase", whose.name),
                "Winnow reads only keys without one; protect the file by its permissions");
  }
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  if (key == nullptr) {
    refuse_text(pem, whose, "private key");
  }
  return key;
}

std::string pem_of(X509& certificate) {
  const Bio bio = writer();
  must(PEM_write_bio_X509(bio.get(), &certificate) == 1, "write a certificate");
  return taken_from(*bio);
}

std::string pem_of(X509_REQ& request) {
  const Bio bio = writer();
  must(PEM_write_bio_X509_REQ(bio.get(), &request) == 1, "write a request");
  return taken_from(*bio);
}

std::string pem_of(EVP_PKEY& key) {
  const Bio bio = writer();
  must(PEM_write_bio_PKCS8PrivateKey(bio.get(), &key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
       "write a key");
  return taken_from(*bio);
}

Key make_key() {
  return Key(must_have(EVP_EC_gen("P-256"), "make a key"));
}

std::string digest_of(EVP_PKEY& key) {
  unsigned char* bytes = nullptr;
  const int size = i2d_PUBKEY(&key, &bytes);
  must(size > 0, "encode a public key");
  const std::string der(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  OPENSSL_free(bytes);
  return sha256_hex(der);
}

std::string read_pem_file(const std::filesystem::path& path) {
  try {
    return read_file(path, kLongestPem);
  } catch (const Error& error) {
    throw Error(ErrorKind::run, error.what(), error.hint());
  }
}

std::string read_key_file(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw Error(ErrorKind::run,
                fmt::format("{} is a private key that others may read", path.string()),
                fmt::format("chmod 600 {}", path.string()));
  }
  return read_pem_file(path);
}

std::int64_t seconds_now() {
  return static_cast<std::int64_t>(std::time(nullptr));
}

std::string date_text(std::int64_t time) {
  const auto seconds = static_cast<std::time_t>(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts);
  return text.data();
}

}  // namespace winnow::pki
