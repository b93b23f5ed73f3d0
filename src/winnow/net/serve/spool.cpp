#include "winnow/net/serve/spool.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/sha256.h"
#include "winnow/federation/file_values.h"
#include "winnow/net/serve/wire_form.h"
#include "winnow/run/run_directory.h"

namespace winnow::net {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_spool(const fs::path& path, const char* doing, int error) {
  throw Error(
      ErrorKind::run,
      fmt::format("cannot {} {}: {}", doing, path.string(), std::generic_category().message(error)),
      error == ENOSPC || error == EDQUOT ? "free some space" : "");
}

// An open file that is closed when this goes.
class SpoolFile {
 public:
  explicit SpoolFile(const fs::path& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)) {}
  ~SpoolFile() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  SpoolFile(const SpoolFile&) = delete;
  SpoolFile& operator=(const SpoolFile&) = delete;

  // -1: there is no such file.
  std::int64_t size() const {
    struct stat status {};
    return descriptor_ < 0 || ::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)
               ? -1
               : static_cast<std::int64_t>(status.st_size);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

void sync_spool(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 || ::fsync(descriptor) != 0) {
    const int error = errno;
    if (descriptor >= 0) {
      ::close(descriptor);
    }
    fail_spool(folder, "write", error);
  }
  ::close(descriptor);
}

bool is_unwanted(const fs::path& path, const std::set<std::string>& wanted) {
  return path.extension() == kSpoolExtension && !wanted.contains(path.stem().string());
}

bool values_are_finite(std::string_view data) {
  bool finite = true;
  for (std::size_t at = 0; at + sizeof(float) <= data.size(); at += sizeof(float)) {
    float value = 0.0F;
    std::memcpy(&value, data.data() + at, sizeof value);
    finite = finite && std::isfinite(value);
  }
  return finite;
}

}  // namespace

IncomingModel::IncomingModel(const fs::path& folder, std::int64_t bytes)
    : path_(temporary_beside(folder / "incoming")),
      bytes_(bytes),
      digests_((static_cast<std::size_t>(bytes) + kPieceBytes - 1) / kPieceBytes) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor_ < 0) {
    fail_spool(path_, "write", errno);
  }
  int error = bytes > 0 ? EINTR : 0;
  while (error == EINTR) {
    error = ::posix_fallocate(descriptor_, 0, bytes);
  }
  if (error != 0) {
    ::close(descriptor_);
    ::unlink(path_.c_str());
    fail_spool(path_, "write", error);
  }
}

IncomingModel::~IncomingModel() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }
}

std::size_t IncomingModel::length_of(std::uint64_t number) const {
  const std::size_t begin = static_cast<std::size_t>(number) * kPieceBytes;
  return std::min(kPieceBytes, static_cast<std::size_t>(bytes_) - begin);
}

void IncomingModel::put(std::uint64_t number, std::string_view data) {
  std::string_view rest = data;
  auto offset = static_cast<off_t>(number * kPieceBytes);
  while (!rest.empty()) {
    const ssize_t written = ::pwrite(descriptor_, rest.data(), rest.size(), offset);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      fail_spool(path_, "write", errno);
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
  finite_ = finite_ && values_are_finite(data);
  digests_[static_cast<std::size_t>(number)] = sha256_hex(data);
}

std::uint64_t IncomingModel::first_missing() const {
  return static_cast<std::uint64_t>(
      std::ranges::find_if(digests_, [](const std::string& digest) { return digest.empty(); }) -
      digests_.begin());
}

std::string IncomingModel::digest() const {
  if (digests_.size() == 1) {
    return digests_.front();
  }
  Sha256 hash;
  for (const std::string& digest : digests_) {
    hash.update(digest);
  }
  return hash.hex();
}

Spool::Spool(fs::path folder) : folder_(std::move(folder)) {
  std::error_code failed;
  if (fs::is_symlink(folder_)) {
    throw Error(ErrorKind::run, fmt::format("{} is a symbolic link", folder_.string()),
                "put the folder itself there, or remove the link");
  }
  fs::create_directories(folder_, failed);
  if (failed) {
    throw Error(ErrorKind::run,
                fmt::format("cannot create {}: {}", folder_.string(), failed.message()));
  }
}

fs::path Spool::path_of(const std::string& digest) const {
  return folder_ / (digest + kSpoolExtension);
}

void Spool::keep_only(const std::set<std::string>& wanted) const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    if (is_unwanted(entry.path(), wanted)) {
      fs::remove(entry.path(), ignored);
    }
  }
}

void Spool::check(const std::map<std::string, std::int64_t>& wanted) const {
  std::set<std::string> digests;
  for (const auto& [digest, bytes] : wanted) {
    digests.insert(digest);
    const fs::path path = path_of(digest);
    const SpoolFile file(path);
    const std::int64_t size = file.size();
    std::string found;
    if (size == bytes) {
      Slot slot{"values", {bytes / static_cast<std::int64_t>(sizeof(float))}};
      found = hash(map(digest, std::make_shared<const Layout>(std::vector<Slot>{slot})));
    }
    if (found != digest) {
      throw Error(ErrorKind::run,
                  fmt::format("{} {}", path.string(),
                              size < 0 ? "is missing, and the journal counts on it"
                                       : "is damaged: it is not the model that was accepted"),
                  "restore it from a copy, or start a new federation with another --out");
    }
  }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    if (is_unwanted(entry.path(), digests) || is_leftover(entry.path())) {
      fs::remove(entry.path(), ignored);
    }
  }
}

bool Spool::holds(const std::string& digest, std::int64_t bytes) const {
  return SpoolFile(path_of(digest)).size() == bytes;
}

std::unique_ptr<IncomingModel> Spool::receive(std::int64_t bytes) const {
  return std::make_unique<IncomingModel>(folder_, bytes);
}

void Spool::keep(IncomingModel& model, const std::string& digest) const {
  const fs::path path = path_of(digest);
  if (model.descriptor_ < 0) {
    // It has its name since an earlier call, which then failed.
    if (!holds(digest, model.bytes_)) {
      fail_spool(path, "find", ENOENT);
    }
    sync_spool(folder_);
    return;
  }
  if (::fsync(model.descriptor_) != 0 || ::rename(model.path_.c_str(), path.c_str()) != 0) {
    fail_spool(path, "write", errno);
  }
  ::close(model.descriptor_);
  model.descriptor_ = -1;
  sync_spool(folder_);
}

void Spool::keep(const State& model, const std::string& digest) const {
  const at::Tensor host = model.flat.to(at::kCPU).contiguous();
  write_file_whole(path_of(digest), {static_cast<const char*>(host.data_ptr()), host.nbytes()});
}

State Spool::map(const std::string& digest, const LayoutPtr& layout) const {
  const fs::path path = path_of(digest);
  const SpoolFile file(path);
  const auto bytes = static_cast<std::size_t>(layout->total()) * sizeof(float);
  if (file.size() != static_cast<std::int64_t>(bytes)) {
    throw Error(ErrorKind::run, fmt::format("{} is missing or damaged", path.string()),
                "restore it from a copy, or start a new federation with another --out");
  }
  if (bytes == 0) {
    return State::zeros(layout);
  }
  at::Tensor values = map_file_values(file.descriptor(), layout->total());
  if (!values.defined()) {
    fail_spool(path, "map", errno);
  }
  return {layout, std::move(values)};
}

std::int64_t Spool::bytes() const {
  std::int64_t sum = 0;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder_, failed)) {
    const std::uintmax_t size = entry.file_size(failed);
    sum += failed ? 0 : static_cast<std::int64_t>(size);
  }
  return sum;
}

}  // namespace winnow::net
