// Files that are written whole or not at all, and read with errors that name them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

namespace winnow {

// The whole file as bytes; throws Error(kind data) naming the file. What is no regular file (a
// pipe, a device, a folder) is refused without waiting for it. A limit of 0 bytes is none.
std::string read_file(const std::filesystem::path& path, std::uintmax_t limit = 0);

// What one line of a log may have; the events of a round with a million clients are shorter.
inline constexpr std::size_t kLongestLine = std::size_t{256} << 20;
// What a small file of a run directory may have: a summary, the index of a sweep, a child's log.
inline constexpr std::uintmax_t kLargestSmallFile = std::uintmax_t{64} << 20;

// Hands on the lines of the file one after the other, without their ends; only one of them is in
// memory. What follows the last end of line is left out, and so is what follows the first `most`
// bytes. A line of more than `longest` bytes is refused. Throws as read_file().
void read_lines(const std::filesystem::path& path,
                const std::function<void(std::string_view)>& take,
                std::uintmax_t most = std::numeric_limits<std::uintmax_t>::max(),
                std::size_t longest = kLongestLine);

// The file up to its first end of line, without it; at most its first MiB. Throws as read_file().
std::string read_first_line(const std::filesystem::path& path);

// The last so many bytes of the file, or all where it has fewer. Throws as read_file().
std::string read_end(const std::filesystem::path& path, std::size_t bytes);

// Writes beside the target, flushes to the disk, then renames over it; a crash at any instant
// leaves either the old file or the new one. A symbolic link at `path` is replaced, not followed.
// Throws Error(kind run) (a full disk, say) and leaves nothing behind.
void write_file_whole(const std::filesystem::path& path, std::string_view content);

// The same for what is never all in memory: pieces are written one after the other, and the file
// appears with commit(). Without it nothing is left behind.
class WholeFile {
 public:
  explicit WholeFile(std::filesystem::path path);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::string_view piece);
  void commit();

 private:
  [[noreturn]] void give_up(int error);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

// Has the names of a folder's files on the disk.
void sync_folder(const std::filesystem::path& folder);

// Whether a file is called like those that write_file_whole() writes first: what a killed process
// has left. Nothing else is ever cleaned away.
bool is_leftover(const std::filesystem::path& path);

// A name for something that is to appear beside `path` only when complete: nobody can guess it.
std::filesystem::path temporary_beside(const std::filesystem::path& path);

// Removes a file, or a folder with everything in it. A symbolic link is removed, not followed. (A
// LibTorch that was built with another C++ library can bring a std::filesystem::remove_all of its
// own that crashes.)
void remove_tree(const std::filesystem::path& path, std::error_code& failed);

// Whether a text can be the name of one file or folder, and shown as it is: UTF-8, not empty, not
// hidden, without slashes and control characters, and not longer than file systems allow.
bool is_plain_name(std::string_view text);

// A file that is opened once and appended to, each time flushed to the operating system.
class AppendingFile {
 public:
  // Continues an existing file after cutting it to `keep_bytes`. A symbolic link is refused: what
  // it points to is somebody else's.
  AppendingFile(std::filesystem::path path, std::uintmax_t keep_bytes);
  ~AppendingFile();
  AppendingFile(const AppendingFile&) = delete;
  AppendingFile& operator=(const AppendingFile&) = delete;

  void write(std::string_view bytes);
  void write_line(std::string_view line);
  void sync();  // down to the disk
  std::uintmax_t size() const { return size_; }
  // Whether the path still leads to this file: neither it nor a folder above it was removed, moved
  // or replaced.
  bool in_place() const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uintmax_t size_ = 0;
};

}  // namespace winnow
