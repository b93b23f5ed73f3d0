// zlib's wrappings for mutators: plain bytes would get no further than a wrong checksum.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace winnow::fuzz {

inline constexpr int kGzip = 16 + MAX_WBITS;
inline constexpr int kRaw = -MAX_WBITS;

inline std::string deflated(std::string_view content, int window) {
  z_stream stream{};
  deflateInit2(&stream, 1, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, static_cast<uLong>(content.size())) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// As far as it can be unpacked, up to `longest` bytes; nothing when it cannot be.
inline std::optional<std::string> inflated(std::string_view packed, int window,
                                           std::size_t longest) {
  z_stream stream{};
  inflateInit2(&stream, window);
  std::string content(longest, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(content.data());
  stream.avail_out = static_cast<uInt>(content.size());
  const int status = inflate(&stream, Z_FINISH);
  content.resize(stream.total_out);
  inflateEnd(&stream);
  if (status != Z_STREAM_END && content.empty()) {
    return std::nullopt;
  }
  return content;
}

// A zip archive as its entries; just enough for the archives that zip() writes.
struct ZipEntry {
  std::string name;
  bool packed = false;
  std::string content;
};

class ZipBytes {
 public:
  void number(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) {
      bytes += static_cast<char>(value >> (8 * i) & 0xff);
    }
  }
  std::string bytes;
};

inline std::string zip(const std::vector<ZipEntry>& entries) {
  ZipBytes out;
  ZipBytes directory;
  for (const ZipEntry& entry : entries) {
    const std::string stored = entry.packed ? deflated(entry.content, kRaw) : entry.content;
    const auto common = [&](ZipBytes& to) {
      to.number(20, 2);  // version
      to.number(0, 2);   // flags
      to.number(entry.packed ? 8 : 0, 2);
      to.number(0, 4);  // time and date
      to.number(
          crc32_z(0, reinterpret_cast<const Bytef*>(entry.content.data()), entry.content.size()),
          4);
      to.number(stored.size(), 4);
      to.number(entry.content.size(), 4);
      to.number(entry.name.size(), 2);
      to.number(0, 2);  // extra
    };
    directory.number(0x02014b50, 4);
    directory.number(20, 2);
    common(directory);
    directory.number(0, 4);  // comment and disk
    directory.number(0, 6);  // attributes
    directory.number(out.bytes.size(), 4);
    directory.bytes += entry.name;
    out.number(0x04034b50, 4);
    common(out);
    out.bytes += entry.name + stored;
  }
  const std::size_t start = out.bytes.size();
  out.bytes += directory.bytes;
  out.number(0x06054b50, 4);
  out.number(0, 4);
  out.number(entries.size(), 2);
  out.number(entries.size(), 2);
  out.number(directory.bytes.size(), 4);
  out.number(start, 4);
  out.number(0, 2);
  return out.bytes;
}

// The entries of an archive front to back, found by their local headers.
inline std::vector<ZipEntry> unzip(std::string_view bytes, std::size_t longest) {
  const auto number = [&](std::size_t at, int width) {
    std::uint64_t value = 0;
    for (int i = width; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
    }
    return value;
  };
  std::vector<ZipEntry> entries;
  std::size_t at = 0;
  while (at + 30 <= bytes.size() && number(at, 4) == 0x04034b50) {
    const std::uint64_t method = number(at + 8, 2);
    const std::uint64_t packed = number(at + 18, 4);
    const std::uint64_t name = number(at + 26, 2);
    const std::uint64_t start = at + 30 + name + number(at + 28, 2);
    if (start + packed > bytes.size()) {
      break;
    }
    ZipEntry entry{std::string(bytes.substr(at + 30, name)), method == 8, {}};
    const std::string_view stored = bytes.substr(start, packed);
    if (entry.packed) {
      entry.content = inflated(stored, kRaw, longest).value_or("");
    } else {
      entry.content = stored;
    }
    entries.push_back(std::move(entry));
    at = start + packed;
  }
  return entries;
}

}  // namespace winnow::fuzz
