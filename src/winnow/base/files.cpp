#include "winnow/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/json.h"

namespace winnow {
namespace {

constexpr std::string_view kLeftoverMark = ".winnow-";
constexpr std::string_view kLeftoverEnd = ".tmp";
constexpr std::size_t kRandomDigits = 16;

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view doing, int error) {
  const char* hint = "";
  if (error == ENOSPC || error == EDQUOT) {
    hint = "free some space and give the command again";
  } else if (error == EFBIG) {
    hint = "raise the limit on the size of files (ulimit -f) and give the command again";
  } else if (error == EACCES || error == EROFS || error == EPERM) {
    hint = "choose a place you may write to";
  } else if (error == ELOOP) {
    throw Error(ErrorKind::run,
                fmt::format("cannot {} {}: it is a symbolic link", doing, path.string()),
                "put the file itself there, or remove the link");
  }
  throw Error(ErrorKind::run,
              fmt::format("cannot {} {}: {}", doing, path.string(), std::strerror(error)), hint);
}

std::string random_digits() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    throw Error(ErrorKind::run, "the system provides no random numbers");
  }
  return fmt::format("{:016x}", number);
}

// Closes a descriptor when it goes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw Error(ErrorKind::data, fmt::format("cannot read {}: {}", path.string(), why));
}

// A regular file to read from.
class OpenedFile {
 public:
  // Opening a pipe without O_NONBLOCK waits for somebody to write into it.
  explicit OpenedFile(const std::filesystem::path& path)
      : path_(path), file_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)) {
    struct stat status {};
    if (file_.number() < 0 || ::fstat(file_.number(), &status) != 0) {
      refuse(path, errno == ENOENT || errno == ENOTDIR ? "no such file" : std::strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
      refuse(path, "it is not a regular file");
    }
    size_ = static_cast<std::size_t>(status.st_size);
  }

  std::size_t size() const { return size_; }

  void skip(std::size_t bytes) const {
    if (::lseek(file_.number(), static_cast<off_t>(bytes), SEEK_CUR) < 0) {
      refuse(path_, std::strerror(errno));
    }
  }

  // How many bytes were read; 0 at the end of the file.
  std::size_t read(char* target, std::size_t most) const {
    for (;;) {
      const ssize_t got = ::read(file_.number(), target, most);
      if (got >= 0) {
        return static_cast<std::size_t>(got);
      }
      if (errno != EINTR) {
        refuse(path_, std::strerror(errno));
      }
    }
  }

 private:
  const std::filesystem::path& path_;
  Descriptor file_;
  std::size_t size_ = 0;
};

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

}  // namespace

std::string read_file(const std::filesystem::path& path, std::uintmax_t limit) {
  const OpenedFile file(path);
  const std::size_t size = file.size();
  if (limit > 0 && size > limit) {
    refuse(path, fmt::format("it has {} bytes, more than the {} allowed", size, limit));
  }
  std::string content(size, '\0');
  std::size_t present = 0;
  while (present < size) {
    const std::size_t got = file.read(content.data() + present, size - present);
    if (got == 0) {
      refuse(path, fmt::format("it ended after {} of {} bytes", present, size));
    }
    present += got;
  }
  return content;
}

void read_lines(const std::filesystem::path& path,
                const std::function<void(std::string_view)>& take, std::uintmax_t most,
                std::size_t longest) {
  const OpenedFile file(path);
  std::vector<char> buffer(std::size_t{1} << 16);
  std::string begun;  // of a line whose end has not been read yet
  for (std::int64_t number = 1; most > 0;) {
    const std::size_t got = file.read(
        buffer.data(), static_cast<std::size_t>(std::min<std::uintmax_t>(buffer.size(), most)));
    if (got == 0) {
      return;
    }
    most -= got;
    std::string_view left(buffer.data(), got);
    for (;;) {
      const std::size_t end = left.find('\n');
      const std::string_view piece = left.substr(0, end);
      if (begun.size() + piece.size() > longest) {
        refuse(path, fmt::format("line {} has more than the {} bytes allowed", number, longest));
      }
      if (end == std::string_view::npos) {
        begun += piece;
        break;
      }
      if (begun.empty()) {
        take(piece);
      } else {
        begun += piece;
        take(begun);
        begun.clear();
      }
      ++number;
      left.remove_prefix(end + 1);
    }
  }
}

std::string read_first_line(const std::filesystem::path& path) {
  constexpr std::size_t kLongest = 1 << 20;
  const OpenedFile file(path);
  std::string line;
  std::array<char, 4096> buffer{};
  while (line.size() < kLongest) {
    const std::size_t got = file.read(buffer.data(), buffer.size());
    const std::string_view piece(buffer.data(), got);
    const std::size_t end = piece.find('\n');
    line += piece.substr(0, end);
    if (got == 0 || end != std::string_view::npos) {
      break;
    }
  }
  return line;
}

std::string read_end(const std::filesystem::path& path, std::size_t bytes) {
  const OpenedFile file(path);
  const std::size_t wanted = std::min(bytes, file.size());
  std::string content(wanted, '\0');
  file.skip(file.size() - wanted);
  std::size_t present = 0;
  while (present < wanted) {
    const std::size_t got = file.read(content.data() + present, wanted - present);
    if (got == 0) {
      refuse(path, fmt::format("it ended after {} of {} bytes", present, wanted));
    }
    present += got;
  }
  return content;
}

std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  return fmt::format("{}{}{}{}", path.string(), kLeftoverMark, random_digits(), kLeftoverEnd);
}

bool is_leftover(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const std::size_t tail = kLeftoverMark.size() + kRandomDigits + kLeftoverEnd.size();
  if (name.size() <= tail) {
    return false;
  }
  std::string_view end = std::string_view(name).substr(name.size() - tail);
  if (!end.starts_with(kLeftoverMark) || !end.ends_with(kLeftoverEnd)) {
    return false;
  }
  end = end.substr(kLeftoverMark.size(), kRandomDigits);
  return end.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void remove_tree(const std::filesystem::path& path, std::error_code& failed) {
  if (std::filesystem::is_directory(std::filesystem::symlink_status(path, failed))) {
    std::vector<std::filesystem::path> entries;
    for (const auto& entry : std::filesystem::directory_iterator(path, failed)) {
      entries.push_back(entry.path());
    }
    for (const std::filesystem::path& entry : entries) {
      remove_tree(entry, failed);
      if (failed) {
        return;
      }
    }
  }
  failed.clear();  // that there is nothing is no failure
  std::filesystem::remove(path, failed);
}

bool is_plain_name(std::string_view text) {
  constexpr std::size_t kLongest = 200;  // leaves room for what is added to it
  return !text.empty() && text.size() <= kLongest && text.front() != '.' && is_utf8(text) &&
         std::ranges::none_of(text, [](unsigned char c) { return c < 32 || c == 127 || c == '/'; });
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path place = folder.empty() ? std::filesystem::path(".") : folder;
  const Descriptor opened(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.number() >= 0) {
    ::fsync(opened.number());
  }
}

WholeFile::WholeFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(temporary_beside(path_)) {
  descriptor_ =
      ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    fail(path_, "write", errno);
  }
}

WholeFile::~WholeFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
  }
}

void WholeFile::give_up(int error) {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
  ::unlink(temporary_.c_str());
  fail(path_, "write", error);
}

void WholeFile::write(std::string_view piece) {
  if (const int error = write_all(descriptor_, piece); error != 0) {
    give_up(error);
  }
}

void WholeFile::commit() {
  if (::fsync(descriptor_) != 0) {
    give_up(errno);
  }
  if (::close(std::exchange(descriptor_, -1)) != 0 ||
      ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    give_up(errno);
  }
  sync_folder(path_.parent_path());
}

void write_file_whole(const std::filesystem::path& path, std::string_view content) {
  WholeFile file(path);
  file.write(content);
  file.commit();
}

AppendingFile::AppendingFile(std::filesystem::path path, std::uintmax_t keep_bytes)
    : path_(std::move(path)), size_(keep_bytes) {
  descriptor_ =
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
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

AppendingFile::~AppendingFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

void AppendingFile::write(std::string_view bytes) {
  if (const int error = write_all(descriptor_, bytes); error != 0) {
    fail(path_, "write", error);
  }
  size_ += bytes.size();
}

void AppendingFile::write_line(std::string_view line) {
  std::string text(line);
  text += '\n';
  write(text);
}

void AppendingFile::sync() {
  if (::fsync(descriptor_) != 0) {
    fail(path_, "write", errno);
  }
}

bool AppendingFile::in_place() const {
  struct stat ours {};
  struct stat there {};
  return ::fstat(descriptor_, &ours) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

}  // namespace winnow
