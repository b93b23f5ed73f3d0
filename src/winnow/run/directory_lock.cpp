#include "winnow/run/directory_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "winnow/base/error.h"

namespace winnow {
namespace {

constexpr const char* kLockFile = "lock";

// is_held() holds the lock for an instant to see whether it is free.
bool take_lock(int descriptor) {
  for (int tries = 0; tries < 10; ++tries) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

}  // namespace

DirectoryLock::DirectoryLock(const std::filesystem::path& directory, const std::string& when_held) {
  refuse_links(directory, {kLockFile});
  // A directory without room or right for the file is worked in all the same; what cannot be
  // written there says so itself.
  descriptor_ = ::open((directory / kLockFile).c_str(),
                       O_CREAT | O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  if (descriptor_ >= 0 && !take_lock(descriptor_)) {
    ::close(descriptor_);
    throw Error(ErrorKind::run, when_held);
  }
}

DirectoryLock::~DirectoryLock() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

bool DirectoryLock::is_held(const std::filesystem::path& directory) {
  const int descriptor =
      ::open((directory / kLockFile).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) {
    return false;
  }
  const bool held = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return held;
}

void refuse_links(const std::filesystem::path& directory,
                  std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const std::filesystem::path path = directory / name;
    std::error_code ignored;
    if (std::filesystem::is_symlink(path, ignored)) {
      throw Error(
          ErrorKind::run,
          fmt::format("{} is a symbolic link: nothing is written through it", path.string()),
          "put what it points to in its place, if you trust who made it");
    }
  }
}

}  // namespace winnow
