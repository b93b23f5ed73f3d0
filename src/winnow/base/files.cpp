#include "winnow/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "winnow/base/error.h"

namespace winnow {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view doing, int error) {
  const char* hint = "";
  if (error == ENOSPC || error == EDQUOT) {
    hint = "free some space or choose another place with --out";
  } else if (error == EACCES || error == EROFS || error == EPERM) {
    hint = "choose a place you may write to with --out";
  }
  throw Error(ErrorKind::run,
              fmt::format("cannot {} {}: {}", doing, path.string(), std::strerror(error)), hint);
}

// Writes all bytes or returns errno.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

void sync_directory(const std::filesystem::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::error_code ignored;
  if (!stream || std::filesystem::is_directory(path, ignored)) {
    throw Error(ErrorKind::data,
                fmt::format("cannot read {}: {}", path.string(),
                            std::filesystem::exists(path, ignored) ? "it is not a readable file"
                                                                   : "no such file"));
  }
  stream.seekg(0, std::ios::end);
  const auto size = stream.tellg();
  stream.seekg(0);
  std::string content(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
  stream.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (static_cast<std::size_t>(stream.gcount()) != content.size()) {
    throw Error(ErrorKind::data, fmt::format("cannot read {}: it ended after {} of {} bytes",
                                             path.string(), stream.gcount(), content.size()));
  }
  return content;
}

void write_file_whole(const std::filesystem::path& path, std::string_view content) {
  const std::filesystem::path temporary =
      path.string() + fmt::format(".{}.tmp", static_cast<long>(::getpid()));
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    fail(path, "write", errno);
  }
  int error = write_all(descriptor, content);
  if (error == 0 && ::fsync(descriptor) != 0) {
    error = errno;
  }
  if (::close(descriptor) != 0 && error == 0) {
    error = errno;
  }
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    ::unlink(temporary.c_str());
    fail(path, "write", error);
  }
  sync_directory(path.parent_path().empty() ? std::filesystem::path(".") : path.parent_path());
}

LineWriter::LineWriter(std::filesystem::path path, std::uintmax_t keep_bytes)
    : path_(std::move(path)), size_(keep_bytes) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    fail(path_, "write", errno);
  }
  if (::ftruncate(descriptor_, static_cast<off_t>(keep_bytes)) != 0 ||
      ::lseek(descriptor_, 0, SEEK_END) < 0) {
    const int error = errno;
    ::close(descriptor_);
    fail(path_, "write", error);
  }
}

LineWriter::~LineWriter() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

void LineWriter::write(std::string_view line) {
  std::string text(line);
  text += '\n';
  if (const int error = write_all(descriptor_, text); error != 0) {
    fail(path_, "write", error);
  }
  size_ += text.size();
}

void LineWriter::sync() {
  if (::fsync(descriptor_) != 0) {
    fail(path_, "write", errno);
  }
}

}  // namespace winnow
