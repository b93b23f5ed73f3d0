#include "winnow/net/pki/credentials.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/net/pki/certificate.h"

namespace winnow {
namespace {

using pki::CertificateKind;

// Writes, flushes to the disk, closes; returns errno or 0.
int write_and_close(int descriptor, std::string_view bytes) {
  int error = 0;
  while (error == 0 && !bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && ::fsync(descriptor) != 0) {
    error = errno;
  }
  if (::close(descriptor) != 0 && error == 0) {
    error = errno;
  }
  return error;
}

[[noreturn]] void refuse_secret(const std::filesystem::path& path, int error) {
  throw Error(ErrorKind::run,
              error == EEXIST
                  ? fmt::format("{} already exists, and keys are never overwritten", path.string())
                  : fmt::format("cannot write {}: {}", path.string(), std::strerror(error)),
              error == EEXIST ? "choose another folder, or move the file away" : "");
}

}  // namespace

Credentials read_credentials(const std::filesystem::path& certificate,
                             const std::filesystem::path& key,
                             const std::filesystem::path& authority) {
  Credentials read{pki::read_pem_file(certificate), pki::read_key_file(key),
                   pki::read_pem_file(authority)};
  const pki::Whose whose{certificate.string()};
  const pki::Whose above{authority.string()};
  const pki::Certificate own = pki::parse_certificate(read.certificate, whose);
  const pki::Key own_key = pki::parse_key(read.key, {key.string()});
  const pki::Certificate root = pki::parse_certificate(read.authority, above);
  const pki::Facts facts = pki::facts_of(*own, whose);
  if (const pki::Facts of_root = pki::facts_of(*root, above);
      of_root.kind != CertificateKind::authority || of_root.federation.empty()) {
    throw Error(ErrorKind::usage,
                fmt::format("{} is not the certificate of a federation's authority", above.name),
                "the operator has it as authority.pem");
  }
  if (!pki::key_fits(*own, *own_key)) {
    throw Error(ErrorKind::usage, fmt::format("the key {} does not belong to the certificate {}",
                                              key.string(), whose.name));
  }
  if (pki::chain_fault(*own, *root) != X509_V_OK) {
    throw Error(ErrorKind::usage,
                fmt::format("{} is not signed by the authority {}: it is of another federation",
                            whose.name, above.name));
  }
  return read;
}

Certified read_certificate(const std::string& pem) {
  const pki::Whose whose{"the certificate"};
  const pki::Certificate certificate = pki::parse_certificate(pem, whose);
  pki::Facts facts = pki::facts_of(*certificate, whose);
  if (facts.federation.empty()) {
    throw Error(ErrorKind::usage, "the certificate is not of a federation of Winnow",
                "'winnow pki' makes those");
  }
  std::string name = facts.label();
  return {std::move(facts.federation), std::move(name), facts.expires};
}

void write_secret(const std::filesystem::path& path, const std::string& content) {
  const std::filesystem::path temporary = temporary_beside(path);
  const int descriptor =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    refuse_secret(path, errno);
  }
  int error = write_and_close(descriptor, content);
  // A link, unlike a rename, fails where something is already.
  if (error == 0 && ::link(temporary.c_str(), path.c_str()) != 0) {
    error = errno;
  }
  ::unlink(temporary.c_str());
  if (error != 0) {
    refuse_secret(path, error);
  }
}

}  // namespace winnow
