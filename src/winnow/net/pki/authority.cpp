#include "winnow/net/pki/authority.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/json.h"
#include "winnow/base/text.h"
#include "winnow/net/pki/certificate.h"
#include "winnow/net/pki/identity.h"
#include "winnow/net/pki/request.h"
#include "winnow/net/pki/revocations.h"
#include "winnow/run/directory_lock.h"

namespace winnow {
namespace fs = std::filesystem;
namespace {

using pki::Certificate;
using pki::CertificateKind;
using pki::Key;
using pki::must;
using pki::must_have;

constexpr std::int64_t kSecondsPerDay = 86400;
constexpr std::int64_t kClocksDiffer = 300;
constexpr int kSerialBits = 127;
constexpr std::size_t kMostHosts = 100;
constexpr const char* kSigning = "make a certificate";

using Extension = std::unique_ptr<X509_EXTENSION, pki::Releases<X509_EXTENSION_free>>;
using Serial = std::unique_ptr<BIGNUM, pki::Releases<BN_free>>;
using SubjectName = std::unique_ptr<X509_NAME, pki::Releases<X509_NAME_free>>;

// What a certificate is to say.
struct Draft {
  std::string common_name;
  std::string identifier = {};  // of an authority, so that equal titles are different subjects
  Validity validity = {};
  std::string names = {};  // as OpenSSL's configuration has them: "URI:...,DNS:..."
  const char* constraints = nullptr;
  const char* usage = nullptr;
  const char* purpose = nullptr;  // extended key usage; null: none
};

void add_to_subject(X509_NAME& subject, int kind, const std::string& text) {
  must(X509_NAME_add_entry_by_NID(&subject, kind, MBSTRING_UTF8,
                                  reinterpret_cast<const unsigned char*>(text.data()),
                                  static_cast<int>(text.size()), -1, 0) == 1,
       kSigning);
}

void add_extension(X509& certificate, X509& issuer, int kind, const std::string& value) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  const Extension extension(
      must_have(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()), kSigning));
  must(X509_add_ext(&certificate, extension.get(), -1) == 1, kSigning);
}

void set_time(ASN1_TIME* field, std::int64_t time) {
  must(ASN1_TIME_set(field, static_cast<std::time_t>(time)) != nullptr, kSigning);
}

// Signs until the signature is of the form that identity_of() accepts; every second one is.
void sign_in_our_form(X509& certificate, EVP_PKEY& key) {
  constexpr int kTries = 200;
  for (int i = 0; i < kTries; ++i) {
    must(X509_sign(&certificate, &key, EVP_sha256()) > 0, kSigning);
    if (pki::has_our_signature(certificate)) {
      return;
    }
  }
  throw Error(ErrorKind::internal, "no signature came out in the form that was wanted");
}

// A null issuer: the certificate is its own.
Certificate make_certificate(const Draft& draft, EVP_PKEY& key, X509* issuer,
                             EVP_PKEY& issuer_key) {
  const pki::QuietErrors quiet;
  Certificate made(must_have(X509_new(), kSigning));
  X509& certificate = *made;
  const Serial serial(must_have(BN_new(), kSigning));
  must(X509_set_version(&certificate, X509_VERSION_3) == 1, kSigning);
  must(BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
           BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(&certificate)) != nullptr,
       kSigning);
  set_time(X509_getm_notBefore(&certificate), draft.validity.begins);
  set_time(X509_getm_notAfter(&certificate), draft.validity.expires);
  const SubjectName subject(must_have(X509_NAME_new(), kSigning));
  add_to_subject(*subject, NID_commonName, draft.common_name);
  if (!draft.identifier.empty()) {
    add_to_subject(*subject, NID_serialNumber, draft.identifier);
  }
  must(X509_set_subject_name(&certificate, subject.get()) == 1, kSigning);
  X509& above = issuer == nullptr ? certificate : *issuer;
  must(X509_set_issuer_name(&certificate, X509_get_subject_name(&above)) == 1, kSigning);
  must(X509_set_pubkey(&certificate, &key) == 1, kSigning);
  add_extension(certificate, above, NID_basic_constraints, draft.constraints);
  add_extension(certificate, above, NID_key_usage, draft.usage);
  if (draft.purpose != nullptr) {
    add_extension(certificate, above, NID_ext_key_usage, draft.purpose);
  }
  add_extension(certificate, above, NID_subject_alt_name, draft.names);
  add_extension(certificate, above, NID_subject_key_identifier, "hash");
  if (issuer != nullptr) {
    add_extension(certificate, above, NID_authority_key_identifier, "keyid:always");
  }
  sign_in_our_form(certificate, issuer_key);
  return made;
}

std::string new_federation_id() {
  std::array<unsigned char, 16> bytes{};
  must(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "draw random numbers");
  std::string id;
  for (const unsigned char byte : bytes) {
    id += fmt::format("{:02x}", byte);
  }
  return id;
}

void check_title(const std::string& title) {
  constexpr std::size_t kLongest = 64;  // the standard's limit for such a name
  if (title.empty() || title.size() > kLongest || !is_utf8(title) ||
      std::ranges::any_of(title, [](unsigned char c) { return c < 32 || c == 127; })) {
    throw Error(ErrorKind::usage, fmt::format("'{}' cannot be the title of a federation", title),
                "it is one line of 1 to 64 bytes of UTF-8");
  }
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

bool is_host_name(std::string_view host) {
  constexpr std::size_t kLongest = 253;
  constexpr std::size_t kLongestPart = 63;
  if (host.empty() || host.size() > kLongest) {
    return false;
  }
  return std::ranges::all_of(split(host, '.'), [](std::string_view part) {
    return !part.empty() && part.size() <= kLongestPart && part.front() != '-' &&
           part.back() != '-' && std::ranges::all_of(part, [](char c) {
             return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '_';
           });
  });
}

std::string host_names(const std::vector<std::string>& hosts) {
  if (hosts.empty() || hosts.size() > kMostHosts) {
    throw Error(ErrorKind::usage,
                fmt::format("a server's certificate is for 1 to {} hosts", kMostHosts));
  }
  std::string names;
  for (const std::string& host : hosts) {
    if (is_address(host)) {
      names += fmt::format(",IP:{}", host);
    } else if (is_host_name(host)) {
      names += fmt::format(",DNS:{}", host);
    } else {
      throw Error(ErrorKind::usage,
                  fmt::format("'{}' is neither a host name nor an IP address", host),
                  "give it as members will: example.org, 192.0.2.7 or 2001:db8::7, without a port");
    }
  }
  return names;
}

void check_validity(const Validity& validity) {
  if (validity.begins >= validity.expires) {
    throw Error(ErrorKind::usage, "a certificate must expire after it begins");
  }
}

void make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    throw Error(ErrorKind::run,
                fmt::format("cannot create {}: {}", folder.string(), failed.message()));
  }
}

// In place, since the server may have the file open or reach it by a link.
void append_line(const fs::path& path, const std::string& line) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  const auto give_up = [&] {
    const int error = errno;
    if (descriptor >= 0) {
      ::close(descriptor);
    }
    throw Error(ErrorKind::run,
                fmt::format("cannot write {}: {}", path.string(), std::strerror(error)));
  };
  if (descriptor < 0) {
    give_up();
  }
  // An editor may have left the last line without its end.
  const off_t size = ::lseek(descriptor, 0, SEEK_END);
  char last = '\n';
  if (size > 0 && ::pread(descriptor, &last, 1, size - 1) != 1) {
    give_up();
  }
  const std::string text = (last == '\n' ? "" : "\n") + line + "\n";
  if (::write(descriptor, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(descriptor) != 0) {
    give_up();
  }
  ::close(descriptor);
}

}  // namespace

Validity valid_for(std::int64_t days) {
  if (days < 1 || days > kMostDays) {
    throw Error(ErrorKind::usage, fmt::format("a certificate cannot be valid for {} days", days),
                fmt::format("expected 1 to {}", kMostDays));
  }
  const std::int64_t now = pki::seconds_now();
  return {now - kClocksDiffer, now + days * kSecondsPerDay};
}

struct Authority::Parts {
  fs::path folder;
  pki::Facts facts;
  std::string pem;
  Certificate certificate;
  Key key;

  fs::path clients() const { return folder / "issued" / "clients"; }
  fs::path servers() const { return folder / "issued" / "servers"; }
  fs::path revoked() const { return folder / "revoked.txt"; }

  DirectoryLock lock() const {
    return {folder, fmt::format("another process is using the authority {}", folder.string())};
  }

  // A signed certificate by its file.
  static pki::Facts recorded(const fs::path& file) {
    const pki::Whose whose{file.string(), ErrorKind::run};
    return pki::facts_of(*pki::parse_certificate(pki::read_pem_file(file), whose), whose);
  }

  // False: it was revoked before.
  bool revoke_one(const std::string& fingerprint, const std::string& name) const {
    if (Revocations(revoked()).contains(fingerprint)) {
      return false;
    }
    append_line(revoked(), fmt::format("{} # {}", fingerprint, name));
    return true;
  }

  Validity within_own(std::int64_t days) const {
    Validity validity = valid_for(days);
    if (facts.expires <= pki::seconds_now()) {
      throw Error(ErrorKind::run,
                  fmt::format("the authority itself expired on {}", pki::date_text(facts.expires)),
                  "make a new one with 'winnow pki init'; all members need new certificates");
    }
    validity.expires = std::min(validity.expires, facts.expires);
    return validity;
  }

  std::string issue(Draft draft, EVP_PKEY& subject_key) const {
    check_validity(draft.validity);
    draft.constraints = "critical,CA:FALSE";
    draft.usage = "critical,digitalSignature";
    return pki::pem_of(*make_certificate(draft, subject_key, certificate.get(), *key));
  }

  void refuse_known(const std::string& name) const {
    if (fs::exists(clients() / (name + ".pem"))) {
      throw Error(ErrorKind::usage, fmt::format("{} already has a certificate", name),
                  "--replace makes a new one and revokes the old one");
    }
  }

  std::string issue_member(const std::string& name, EVP_PKEY& subject_key, const Validity& validity,
                           Replace replace) const {
    check_member_name(name);
    const DirectoryLock held = lock();
    const fs::path file = clients() / (name + ".pem");
    const bool again = fs::exists(file);
    if (replace == Replace::no) {
      refuse_known(name);
    }
    Draft draft;
    draft.common_name = name;
    draft.validity = validity;
    draft.names = "URI:" + pki::member_uri(facts.federation, name);
    draft.purpose = "clientAuth";
    std::string issued = issue(std::move(draft), subject_key);
    if (again) {
      revoke_one(recorded(file).fingerprint, name);
    }
    write_file_whole(file, issued);
    return issued;
  }
};

Authority::Authority(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Authority::Authority(Authority&&) noexcept = default;
Authority& Authority::operator=(Authority&&) noexcept = default;
Authority::~Authority() = default;

Authority Authority::create(const fs::path& folder, const std::string& title, std::int64_t days) {
  return create(folder, title, valid_for(days));
}

Authority Authority::create(const fs::path& folder, const std::string& title,
                            const Validity& validity) {
  check_title(title);
  check_validity(validity);
  fs::path whole = fs::absolute(folder).lexically_normal();
  if (!whole.has_filename()) {
    whole = whole.parent_path();  // "DIR/" is "DIR"
  }
  make_folder(whole.parent_path());
  if (::mkdir(whole.c_str(), 0755) != 0) {
    if (errno == EEXIST) {
      throw Error(ErrorKind::usage, fmt::format("{} already exists", folder.string()),
                  "choose a new folder: an authority is never overwritten");
    }
    throw Error(ErrorKind::run,
                fmt::format("cannot create {}: {}", folder.string(), std::strerror(errno)));
  }
  try {
    const Key key = pki::make_key();
    Draft draft;
    draft.common_name = title;
    draft.identifier = new_federation_id();
    draft.validity = validity;
    draft.names = "URI:" + pki::federation_uri(draft.identifier);
    draft.constraints = "critical,CA:TRUE,pathlen:0";
    draft.usage = "critical,keyCertSign,cRLSign";
    const Certificate certificate = make_certificate(draft, *key, nullptr, *key);
    make_folder(folder / "issued" / "clients");
    make_folder(folder / "issued" / "servers");
    write_file_whole(folder / "revoked.txt", "");
    write_secret(folder / "authority.key", pki::pem_of(*key));
    write_file_whole(folder / "authority.pem", pki::pem_of(*certificate));
  } catch (...) {
    std::error_code ignored;
    remove_tree(folder, ignored);
    throw;
  }
  return open(folder);
}

Authority Authority::open(const fs::path& folder) {
  const fs::path file = folder / "authority.pem";
  if (!fs::exists(file)) {
    throw Error(ErrorKind::run, fmt::format("{} is not an authority's folder", folder.string()),
                "'winnow pki init DIR --name TITLE' makes one");
  }
  auto parts = std::make_unique<Parts>();
  const pki::Whose whose{file.string(), ErrorKind::run};
  const fs::path key_file = folder / "authority.key";
  parts->folder = folder;
  parts->pem = pki::read_pem_file(file);
  parts->certificate = pki::parse_certificate(parts->pem, whose);
  parts->facts = pki::facts_of(*parts->certificate, whose);
  parts->key = pki::parse_key(pki::read_key_file(key_file), {key_file.string(), ErrorKind::run});
  if (parts->facts.kind != CertificateKind::authority || parts->facts.federation.empty()) {
    throw Error(ErrorKind::run,
                fmt::format("{} is not the certificate of a federation's authority", whose.name));
  }
  if (!pki::key_fits(*parts->certificate, *parts->key)) {
    throw Error(ErrorKind::run, fmt::format("the key {} does not belong to the certificate {}",
                                            key_file.string(), whose.name));
  }
  return Authority(std::move(parts));
}

const std::string& Authority::federation() const {
  return parts_->facts.federation;
}

const std::string& Authority::title() const {
  return parts_->facts.title;
}

const std::string& Authority::certificate() const {
  return parts_->pem;
}

fs::path Authority::revoked_file() const {
  return parts_->revoked();
}

Credentials Authority::issue_client(const std::string& name, std::int64_t days, Replace replace) {
  return issue_client(name, parts_->within_own(days), replace);
}

Credentials Authority::issue_client(const std::string& name, const Validity& validity,
                                    Replace replace) {
  const Key key = pki::make_key();
  std::string certificate = parts_->issue_member(name, *key, validity, replace);
  return {std::move(certificate), pki::pem_of(*key), parts_->pem};
}

Credentials Authority::issue_server(const std::vector<std::string>& hosts, std::int64_t days) {
  return issue_server(hosts, parts_->within_own(days));
}

Credentials Authority::issue_server(const std::vector<std::string>& hosts,
                                    const Validity& validity) {
  Draft draft;
  draft.names = "URI:" + pki::federation_uri(federation()) + host_names(hosts);
  draft.common_name = hosts.front().substr(0, 64);
  draft.validity = validity;
  draft.purpose = "serverAuth";
  const Key key = pki::make_key();
  const DirectoryLock held = parts_->lock();
  std::string certificate = parts_->issue(std::move(draft), *key);
  write_file_whole(parts_->servers() / (hosts.front() + ".pem"), certificate);
  return {std::move(certificate), pki::pem_of(*key), parts_->pem};
}

std::string Authority::sign(const std::string& request_pem, std::int64_t days, Replace replace) {
  const pki::CheckedRequest request = pki::check_request(request_pem);
  return parts_->issue_member(request.name, *request.key, parts_->within_own(days), replace);
}

bool Authority::revoke(const std::string& name) {
  const fs::path file = parts_->clients() / (name + ".pem");
  if (!is_member_name(name) || !fs::exists(file)) {
    if ((is_host_name(name) || is_address(name)) &&
        fs::exists(parts_->servers() / (name + ".pem"))) {
      throw Error(ErrorKind::usage,
                  fmt::format("{} is a server: members look up no revocations", name),
                  "if its key is stolen, make a new authority with 'winnow pki init'");
    }
    throw Error(ErrorKind::usage, fmt::format("there is no certificate for '{}'", name),
                "'winnow pki list' shows all");
  }
  const DirectoryLock held = parts_->lock();
  return parts_->revoke_one(Parts::recorded(file).fingerprint, name);
}

void Authority::refuse_known(const std::string& name) const {
  parts_->refuse_known(name);
}

std::vector<Issued> Authority::issued() const {
  Revocations revocations(parts_->revoked());
  std::vector<Issued> all;
  for (const bool server : {false, true}) {
    const std::size_t before = all.size();
    for (const auto& entry :
         fs::directory_iterator(server ? parts_->servers() : parts_->clients())) {
      if (entry.path().extension() != ".pem" || is_leftover(entry.path())) {
        continue;
      }
      pki::Facts facts = Parts::recorded(entry.path());
      const bool revoked = revocations.contains(facts.fingerprint);
      std::string name = facts.label();
      all.push_back(
          {std::move(name), server, facts.expires, std::move(facts.fingerprint), revoked});
    }
    std::sort(all.begin() + static_cast<std::ptrdiff_t>(before), all.end(),
              [](const Issued& a, const Issued& b) { return a.name < b.name; });
  }
  return all;
}

}  // namespace winnow
