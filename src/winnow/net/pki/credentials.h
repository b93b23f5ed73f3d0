// What a process shows to others and trusts, as PEM texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace winnow {

struct Credentials {
  std::string certificate;
  std::string key;
  std::string authority;
};

// Reads the three files and checks that they are what they should be: the key is nobody else's to
// read and fits the certificate, and the authority has signed it. Whether it has expired is not
// looked at: that is for the other side to say, and for examine() (doctor.h) to explain. Throws
// Error(kind usage) for what does not fit, Error(kind run) for what cannot be read.
Credentials read_credentials(const std::filesystem::path& certificate,
                             const std::filesystem::path& key,
                             const std::filesystem::path& authority);

// What a certificate of a federation says.
struct Certified {
  std::string federation;    // id of its authority
  std::string name;          // of a member; the first host of a server; the authority's title
  std::int64_t expires = 0;  // seconds since 1970
};

// Of one certificate in PEM form. Throws Error(kind usage).
Certified read_certificate(const std::string& pem);

// Writes a file that only its owner may read, whole or not at all. Throws Error(kind run); what is
// there already is refused, never overwritten.
void write_secret(const std::filesystem::path& path, const std::string& content);

}  // namespace winnow
