// Certificates that are no longer accepted: their fingerprints, one a line. What follows a '#' is
// for people.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>

namespace winnow {

// May be asked by several threads at once.
class Revocations {
 public:
  // An empty path: nothing is ever revoked. Otherwise throws Error(kind data) where the file is
  // missing or is no list of fingerprints: a misspelt path must not let revoked members in.
  explicit Revocations(std::filesystem::path file);

  // Reads the file again when it has changed. Where it is gone or damaged, what was revoked stays
  // revoked, and problem() says so.
  bool contains(const std::string& fingerprint);

  // What is wrong with the file, in one sentence, since the last call of contains(); or empty.
  std::string problem() const;

 private:
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t size = -1;
    std::int64_t changed = 0;  // nanoseconds since 1970
    bool operator==(const Stamp&) const = default;
  };

  bool look();
  void read_again();

  mutable std::mutex mutex_;
  std::filesystem::path file_;
  Stamp stamp_;
  bool settled_ = false;  // no change can hide behind an equal stamp
  std::set<std::string> revoked_;
  std::string problem_;
};

}  // namespace winnow
