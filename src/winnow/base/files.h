// Files that are written whole or not at all, and read with errors that name them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace winnow {

// The whole file as bytes; throws Error(kind data) naming the file.
std::string read_file(const std::filesystem::path& path);

// Writes beside the target, flushes to the disk, then renames over it; a crash at any instant
// leaves either the old file or the new one. Throws Error(kind run) (a full disk, say) and leaves
// nothing behind.
void write_file_whole(const std::filesystem::path& path, std::string_view content);

// A file that is opened once and appended to in whole lines, each flushed to the operating system.
class LineWriter {
 public:
  // Continues an existing file after cutting it to `keep_bytes`.
  LineWriter(std::filesystem::path path, std::uintmax_t keep_bytes);
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  void write(std::string_view line);
  void sync();  // down to the disk
  std::uintmax_t size() const { return size_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uintmax_t size_ = 0;
};

}  // namespace winnow
