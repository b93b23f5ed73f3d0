#include "winnow/net/pki/revocations.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

constexpr std::uintmax_t kLongestList = 16 << 20;
constexpr std::size_t kDigits = 64;
constexpr std::int64_t kSecond = 1'000'000'000;

// Also in the form "AB:CD:...", as other programs print it.
std::string plain_fingerprint(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (c != ':') {
      plain += c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return plain;
}

bool is_fingerprint(std::string_view text) {
  return text.size() == kDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Adds the fingerprints of a list; returns what is wrong with it, or nothing.
std::string add_lines(std::string_view list, std::set<std::string>& fingerprints) {
  std::string wrong;
  std::size_t number = 0;
  for (const std::string& line : split(list, '\n')) {
    ++number;
    const std::string text(trim(std::string_view(line).substr(0, line.find('#'))));
    std::string fingerprint = plain_fingerprint(text);
    if (is_fingerprint(fingerprint)) {
      fingerprints.insert(std::move(fingerprint));
    } else if (!text.empty() && wrong.empty()) {
      wrong = fmt::format("line {} is no fingerprint", number);
    }
  }
  return wrong;
}

}  // namespace

Revocations::Revocations(std::filesystem::path file) : file_(std::move(file)) {
  if (file_.empty()) {
    return;
  }
  look();
  read_again();
  if (!problem_.empty()) {
    throw Error(ErrorKind::data, problem_,
                "it has the SHA-256 fingerprint of a certificate in each line; 'winnow pki revoke' "
                "writes it");
  }
}

bool Revocations::contains(const std::string& fingerprint) {
  const std::lock_guard lock(mutex_);
  if (!file_.empty() && look()) {
    read_again();
  }
  return revoked_.contains(plain_fingerprint(fingerprint));
}

std::string Revocations::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

// Whether the file may be another than at the last look. Right after a change it always may: the
// times of files move in steps of some milliseconds.
bool Revocations::look() {
  struct stat status {};
  Stamp stamp;
  if (::stat(file_.c_str(), &status) == 0) {
    stamp = {status.st_dev, status.st_ino, status.st_size,
             status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec};
  }
  const bool same = stamp == stamp_ && settled_;
  stamp_ = stamp;
  const std::int64_t age = static_cast<std::int64_t>(std::time(nullptr)) * kSecond - stamp.changed;
  settled_ = stamp.size >= 0 && age > 2 * kSecond;
  return !same;
}

void Revocations::read_again() {
  std::set<std::string> found;
  try {
    const std::string wrong = add_lines(read_file(file_, kLongestList), found);
    problem_ = wrong.empty() ? "" : fmt::format("{}: {}", file_.string(), wrong);
  } catch (const Error& error) {
    problem_ = error.what();
  }
  if (problem_.empty()) {
    revoked_ = std::move(found);
  } else {
    revoked_.merge(found);
  }
}

}  // namespace winnow
