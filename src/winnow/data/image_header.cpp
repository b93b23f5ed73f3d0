#include "winnow/data/image_header.h"

#include <cstddef>

namespace winnow {
namespace {

constexpr std::string_view kPngStart("\x89PNG\r\n\x1a\n", 8);
constexpr std::string_view kJpegStart("\xff\xd8", 2);

std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char byte : bytes) {
    value = value << 8 | static_cast<unsigned char>(byte);
  }
  return value;
}

// The first chunk has a length, the name IHDR, the width and the height, four bytes each.
std::optional<ImageExtent> png_extent(std::string_view bytes) {
  if (bytes.size() < 24 || bytes.substr(12, 4) != "IHDR") {
    return std::nullopt;
  }
  return ImageExtent{big_endian(bytes.substr(16, 4)), big_endian(bytes.substr(20, 4))};
}

// Frame headers are the markers C0 to CF but for three that mean something else.
bool is_frame(unsigned char marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

// Markers without content: TEM, the restart markers and the start of the image.
bool stands_alone(unsigned char marker) {
  return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8);
}

// Segments are FF, a marker, a length of two bytes that counts itself, and content; bytes between
// them are skipped, as decoders do.
std::optional<ImageExtent> jpeg_extent(std::string_view bytes) {
  std::size_t at = kJpegStart.size();
  for (;;) {
    at = bytes.find('\xff', at);
    at = at == std::string_view::npos ? at : bytes.find_first_not_of('\xff', at);
    if (at == std::string_view::npos) {
      return std::nullopt;
    }
    const auto marker = static_cast<unsigned char>(bytes[at++]);
    if (marker == 0 || stands_alone(marker)) {
      continue;
    }
    if (bytes.size() - at < 7 || marker == 0xd9 || marker == 0xda) {
      return std::nullopt;  // the pixels or the end come before any frame
    }
    if (is_frame(marker)) {
      return ImageExtent{big_endian(bytes.substr(at + 5, 2)), big_endian(bytes.substr(at + 3, 2))};
    }
    at += big_endian(bytes.substr(at, 2));
    if (at > bytes.size()) {
      return std::nullopt;
    }
  }
}

}  // namespace

std::optional<ImageExtent> read_image_extent(std::string_view bytes) {
  if (bytes.starts_with(kPngStart)) {
    return png_extent(bytes);
  }
  return bytes.starts_with(kJpegStart) ? jpeg_extent(bytes) : std::nullopt;
}

}  // namespace winnow
