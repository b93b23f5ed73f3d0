#include "winnow/data/bytes.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "winnow/base/error.h"

namespace winnow {

void damaged(const std::string& name, std::uint64_t offset, const std::string& what) {
  throw Error(ErrorKind::data, fmt::format("{}: {} (byte {})", name, what, offset),
              "the file is damaged or of another kind: fetch it again");
}

std::optional<std::uint64_t> checked_product(std::span<const std::uint64_t> factors) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::uint64_t product = 1;
  for (const std::uint64_t factor : factors) {
    if (factor != 0 && product > kMost / factor) {
      return std::nullopt;
    }
    product *= factor;
  }
  return product;
}

ByteReader::ByteReader(std::string_view bytes, std::string name, std::size_t offset)
    : bytes_(bytes), name_(std::move(name)), offset_(offset) {
  if (offset > bytes.size()) {
    damaged(name_, offset, fmt::format("points past the end of {} bytes", bytes.size()));
  }
}

std::string_view ByteReader::take(std::size_t count) {
  if (count > left()) {
    damaged(name_, offset_, fmt::format("truncated: {} bytes needed, {} left", count, left()));
  }
  const std::string_view taken = bytes_.substr(offset_, count);
  offset_ += count;
  return taken;
}

std::uint64_t ByteReader::little(std::size_t width) {
  std::uint64_t value = 0;
  std::size_t shift = 0;
  for (const char byte : take(width)) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(byte)) << shift;
    shift += 8;
  }
  return value;
}

std::uint64_t ByteReader::big(std::size_t width) {
  std::uint64_t value = 0;
  for (const char byte : take(width)) {
    value = value << 8 | static_cast<unsigned char>(byte);
  }
  return value;
}

}  // namespace winnow
