// The authority of a federation: signs the certificates by which its members and its server know
// each other. Every federation has one of its own, so that no certificate of another one counts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "winnow/net/pki/credentials.h"

namespace winnow {

// From when until when a certificate holds, in seconds since 1970.
struct Validity {
  std::int64_t begins = 0;
  std::int64_t expires = 0;
};

// From a few minutes ago, since clocks differ, for that many days.
Validity valid_for(std::int64_t days);

// Whether a name that has a certificate may get another. The earlier one is then revoked.
enum class Replace { no, yes };

inline constexpr std::int64_t kAuthorityDays = 3650;
inline constexpr std::int64_t kCertificateDays = 365;
inline constexpr std::int64_t kMostDays = 36500;

// A certificate that the authority has signed: the latest of its name.
struct Issued {
  std::string name;  // of the member; the first host of a server
  bool server = false;
  std::int64_t expires = 0;
  std::string fingerprint;
  bool revoked = false;
};

// What a member asks to have signed. Its own key stays with it.
struct RequestedName {
  std::string name;
  std::string key_digest;  // SHA-256 of the public key, in hexadecimal: for comparing by telephone
};

// A new key and the request for a certificate of that name, both in PEM form.
struct KeyAndRequest {
  std::string key;
  std::string request;
};
KeyAndRequest make_request(const std::string& name);

// What a request asks for. It comes from somebody who is not trusted yet: its size is bounded, its
// signature by its own key is checked, and nothing but the name and the key is taken from it.
// Throws Error(kind peer).
RequestedName read_request(const std::string& request_pem);

// A folder with
//   authority.pem            the certificate that all members and the server trust
//   authority.key            its key, for the owner's eyes only
//   issued/clients/NAME.pem  what was signed, and issued/servers/HOST.pem
//   revoked.txt              fingerprints of what is revoked; the server reads it
// Certificates that are asked for in days never outlive the authority's own. Not thread-safe.
class Authority {
 public:
  // Throws Error(kind usage) where the folder exists, or title or days make no sense.
  static Authority create(const std::filesystem::path& folder, const std::string& title,
                          std::int64_t days = kAuthorityDays);
  static Authority create(const std::filesystem::path& folder, const std::string& title,
                          const Validity& validity);
  // Throws Error(kind run) where there is none.
  static Authority open(const std::filesystem::path& folder);

  Authority(Authority&&) noexcept;
  Authority& operator=(Authority&&) noexcept;
  ~Authority();

  const std::string& federation() const;   // its id, 32 hexadecimal digits
  const std::string& title() const;        // for people
  const std::string& certificate() const;  // PEM
  std::filesystem::path revoked_file() const;

  // Throws Error(kind usage) for a member's name that has a certificate already.
  void refuse_known(const std::string& name) const;
  // Makes a key too; it is kept nowhere else. Throws Error(kind usage) for a name that has a
  // certificate already, unless it is to be replaced.
  Credentials issue_client(const std::string& name, std::int64_t days = kCertificateDays,
                           Replace replace = Replace::no);
  Credentials issue_client(const std::string& name, const Validity& validity,
                           Replace replace = Replace::no);
  // For host names and IP addresses.
  Credentials issue_server(const std::vector<std::string>& hosts,
                           std::int64_t days = kCertificateDays);
  Credentials issue_server(const std::vector<std::string>& hosts, const Validity& validity);
  // The certificate for a member's request, as PEM. Throws as read_request() and issue_client().
  std::string sign(const std::string& request_pem, std::int64_t days = kCertificateDays,
                   Replace replace = Replace::no);

  // False where it was revoked before. Throws Error(kind usage) for an unknown name, and for a
  // server's, since members look up no revocations.
  bool revoke(const std::string& name);

  std::vector<Issued> issued() const;  // members, then servers, by name

 private:
  struct Parts;
  explicit Authority(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace winnow
