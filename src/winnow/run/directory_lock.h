// Keeps a second process out of a directory that one is writing.
#pragma once

#include <filesystem>
#include <string>

namespace winnow {

class DirectoryLock {
 public:
  // Locks the file "lock" in the directory until the object goes. Throws Error(kind run) with the
  // given message when another process holds it, and when the file is a symbolic link.
  DirectoryLock(const std::filesystem::path& directory, const std::string& when_held);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // Whether a process holds the lock of a directory.
  static bool is_held(const std::filesystem::path& directory);

 private:
  int descriptor_;
};

// Throws Error(kind run) when one of the named entries of a directory is a symbolic link: what is
// written there would end up in somebody else's place.
void refuse_links(const std::filesystem::path& directory, std::initializer_list<const char*> names);

}  // namespace winnow
