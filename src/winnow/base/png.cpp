#include "winnow/base/png.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "winnow/base/error.h"

namespace winnow {
namespace {

constexpr std::string_view kSignature{"\x89PNG\r\n\x1a\n", 8};
constexpr std::int64_t kMostSide = 0x7fffffff;
constexpr std::size_t kMostInChunk = std::size_t{1} << 30;

void append_u32(std::string& out, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) {
    out.push_back(static_cast<char>((value >> shift) & 0xffU));
  }
}

void append_chunk(std::string& out, std::string_view type, std::string_view content) {
  append_u32(out, static_cast<std::uint32_t>(content.size()));
  const std::size_t begin = out.size();
  out += type;
  out += content;
  const auto* counted = reinterpret_cast<const Bytef*>(out.data() + begin);
  const uLong sum = crc32(0, counted, static_cast<uInt>(out.size() - begin));
  append_u32(out, static_cast<std::uint32_t>(sum));
}

// Every row starts with the number of its filter; 0 leaves the row as it is.
std::string scanlines(std::span<const std::uint8_t> pixels, std::size_t row_bytes) {
  std::string lines;
  lines.reserve(pixels.size() + pixels.size() / row_bytes);
  for (std::size_t at = 0; at < pixels.size(); at += row_bytes) {
    lines.push_back('\0');
    const auto row = pixels.subspan(at, row_bytes);
    lines.append(row.begin(), row.end());
  }
  return lines;
}

std::string compress_whole(const std::string& plain) {
  uLongf size = compressBound(plain.size());
  std::string packed(size, '\0');
  const int result =
      compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                reinterpret_cast<const Bytef*>(plain.data()), plain.size(), Z_BEST_COMPRESSION);
  if (result != Z_OK) {
    throw Error(ErrorKind::internal, fmt::format("zlib could not compress a picture ({})", result));
  }
  packed.resize(size);
  return packed;
}

void check_size(std::size_t bytes, std::int64_t width, std::int64_t height, std::int64_t channels) {
  if (channels != 1 && channels != 3) {
    throw Error(ErrorKind::internal,
                fmt::format("a PNG has 1 or 3 channels here, got {}", channels));
  }
  if (width < 1 || width > kMostSide || height < 1 || height > kMostSide) {
    throw Error(ErrorKind::internal,
                fmt::format("a PNG cannot be {} x {} pixels: 1 to {} per side are possible", width,
                            height, kMostSide));
  }
  // Divided, not multiplied: the product of forged sides may not fit.
  const auto row_bytes = static_cast<std::size_t>(width * channels);
  if (bytes % row_bytes != 0 || bytes / row_bytes != static_cast<std::size_t>(height)) {
    throw Error(ErrorKind::internal,
                fmt::format("a PNG of {} x {} pixels in {} channels does not fit {} bytes", width,
                            height, channels, bytes));
  }
}

}  // namespace

std::string encode_png(std::span<const std::uint8_t> pixels, std::int64_t width,
                       std::int64_t height, std::int64_t channels) {
  check_size(pixels.size(), width, height, channels);
  constexpr char kGrey = 0;
  constexpr char kRgb = 2;
  std::string header;
  append_u32(header, static_cast<std::uint32_t>(width));
  append_u32(header, static_cast<std::uint32_t>(height));
  // Bits per channel, colour type, then compression, filtering and interlacing as always.
  header += {8, channels == 1 ? kGrey : kRgb, 0, 0, 0};

  std::string png(kSignature);
  append_chunk(png, "IHDR", header);
  const std::string packed =
      compress_whole(scanlines(pixels, static_cast<std::size_t>(width * channels)));
  for (std::size_t at = 0; at < packed.size(); at += kMostInChunk) {
    append_chunk(png, "IDAT", std::string_view(packed).substr(at, kMostInChunk));
  }
  append_chunk(png, "IEND", "");
  return png;
}

}  // namespace winnow
