#include "winnow/data/npz.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/data/bytes.h"
#include "winnow/data/inflater.h"

namespace winnow {
namespace {

// Signatures and fixed sizes of the zip format (APPNOTE.TXT 4.3).
constexpr std::uint64_t kLocalHeader = 0x04034b50;
constexpr std::uint64_t kDirectoryEntry = 0x02014b50;
constexpr std::string_view kDirectoryEnd("PK\x05\x06", 4);
constexpr std::size_t kDirectoryEndSize = 22;
constexpr std::size_t kMostComment = 0xffff;
constexpr std::uint64_t kStored = 0;
constexpr std::uint64_t kDeflated = 8;
constexpr std::uint64_t kMost16 = 0xffff;
constexpr std::uint64_t kMost32 = 0xffffffff;

[[noreturn]] void refuse_zip64(const std::string& path) {
  throw Error(ErrorKind::data, fmt::format("{}: zip64 archives are not supported", path),
              "save the arrays as .npy files or split the archive below 4 GB");
}

std::uint64_t crc(std::string_view bytes) {
  return crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

}  // namespace

NpzFile::NpzFile(const std::filesystem::path& path)
    : path_(path.string()), bytes_(read_file(path)) {
  read_directory();
}

// The end record lies at the very end but for a comment, whose length it holds.
std::size_t NpzFile::find_directory_end() const {
  if (bytes_.size() >= kDirectoryEndSize) {
    const std::size_t last = bytes_.size() - kDirectoryEndSize;
    const std::size_t first = last > kMostComment ? last - kMostComment : 0;
    for (std::size_t at = last + 1; at-- > first;) {
      if (std::string_view(bytes_).substr(at).starts_with(kDirectoryEnd) &&
          ByteReader(bytes_, path_, at + 20).little(2) == last - at) {
        return at;
      }
    }
  }
  damaged(path_, bytes_.size(), "not a zip archive, or truncated: no directory at its end");
}

void NpzFile::read_directory() {
  const std::size_t end = find_directory_end();
  ByteReader reader(bytes_, path_, end + 4);
  const std::uint64_t disk = reader.little(2);
  const std::uint64_t directory_disk = reader.little(2);
  const std::uint64_t entries_here = reader.little(2);
  const std::uint64_t entries = reader.little(2);
  const std::uint64_t size = reader.little(4);
  const std::uint64_t start = reader.little(4);
  if (entries == kMost16 || size == kMost32 || start == kMost32) {
    refuse_zip64(path_);
  }
  if (disk != 0 || directory_disk != 0 || entries_here != entries) {
    damaged(path_, end, "archives of several parts are not supported");
  }
  if (start > end || size > end - start) {
    damaged(path_, end, fmt::format("a directory of {} bytes at {} does not fit", size, start));
  }
  const std::string_view before_end = std::string_view(bytes_).substr(0, start + size);
  ByteReader directory(before_end, path_, start);
  for (std::uint64_t i = 0; i < entries; ++i) {
    read_entry(directory);
  }
  if (directory.left() != 0) {
    damaged(path_, directory.offset(), "the directory is longer than its entries");
  }
}

void NpzFile::read_entry(ByteReader& reader) {
  if (reader.little(4) != kDirectoryEntry) {
    damaged(path_, reader.offset() - 4, "expected a directory entry");
  }
  Entry entry;
  reader.skip(4);  // versions
  entry.flags = reader.little(2);
  entry.method = reader.little(2);
  reader.skip(4);  // time and date
  entry.checksum = reader.little(4);
  entry.packed = reader.little(4);
  entry.size = reader.little(4);
  const std::size_t name = reader.little(2);
  const std::size_t extra = reader.little(2);
  const std::size_t comment = reader.little(2);
  reader.skip(8);  // disk and attributes
  entry.header = reader.little(4);
  entry.name = reader.take(name);
  reader.skip(extra);
  reader.skip(comment);
  if (entry.packed == kMost32 || entry.size == kMost32 || entry.header == kMost32) {
    refuse_zip64(path_);
  }
  if (entry.name.ends_with(".npy")) {
    entries_.push_back(std::move(entry));
  }
}

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) {
    names.push_back(entry.name.substr(0, entry.name.size() - 4));
  }
  return names;
}

NpyArray NpzFile::array(std::string_view name) const {
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.name == fmt::format("{}.npy", name); });
  if (found == entries_.end()) {
    throw Error(ErrorKind::data, fmt::format("{}: has no array '{}'", path_, name),
                "it has: " + join(names(), ", "));
  }
  return {unpack(*found), fmt::format("{}: {}", path_, name)};
}

std::string NpzFile::unpack(const Entry& entry) const {
  if ((entry.flags & 1) != 0) {
    damaged(path_, entry.header, fmt::format("entry '{}' is encrypted", entry.name));
  }
  if (entry.method != kStored && entry.method != kDeflated) {
    damaged(
        path_, entry.header,
        fmt::format("entry '{}' uses compression method {}, expected 0 (stored) or 8 (deflated)",
                    entry.name, entry.method));
  }
  // Sizes come from the directory: writers may leave those of the local header open.
  ByteReader reader(bytes_, path_, entry.header);
  if (reader.little(4) != kLocalHeader) {
    damaged(path_, entry.header, fmt::format("entry '{}' has no header here", entry.name));
  }
  reader.skip(22);
  const std::size_t name = reader.little(2);
  const std::size_t extra = reader.little(2);
  reader.skip(name);
  reader.skip(extra);
  const std::size_t start = reader.offset();
  const std::string_view packed = reader.take(entry.packed);
  std::string content;
  if (entry.method == kStored) {
    content = packed;
  } else {
    if (entry.size > Inflater::most_bytes(packed.size())) {
      damaged(path_, start,
              fmt::format("entry '{}' claims {} bytes, at most {} are read from {}", entry.name,
                          entry.size, Inflater::most_bytes(packed.size()), packed.size()));
    }
    content.resize(entry.size);
    Inflater inflater(packed, Inflater::Wrapping::raw, fmt::format("{}: {}", path_, entry.name));
    content.resize(inflater.read(content));
    if (content.size() == entry.size) {
      inflater.finish();
    }
  }
  if (content.size() != entry.size) {
    damaged(path_, start,
            fmt::format("entry '{}' has {} bytes, expected {}", entry.name, content.size(),
                        entry.size));
  }
  if (crc(content) != entry.checksum) {
    damaged(path_, start, fmt::format("entry '{}' has a wrong checksum", entry.name));
  }
  return content;
}

}  // namespace winnow
