// Numbers out of untrusted bytes: every read is checked, and an error names the file and the
// offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace winnow {

// Throws Error(kind data): "NAME: WHAT (byte OFFSET)".
[[noreturn]] void damaged(const std::string& name, std::uint64_t offset, const std::string& what);

// The product, or nothing when it does not fit in 63 bits.
std::optional<std::uint64_t> checked_product(std::span<const std::uint64_t> factors);

// A place in borrowed bytes that moves forward. Reading past the end throws through damaged().
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::string name, std::size_t offset = 0);

  std::size_t offset() const { return offset_; }
  std::size_t left() const { return bytes_.size() - offset_; }

  std::string_view take(std::size_t count);
  void skip(std::size_t count) { take(count); }
  std::uint64_t little(std::size_t width);  // an unsigned number of 1 to 8 bytes, lowest byte first
  std::uint64_t big(std::size_t width);     // highest byte first

 private:
  std::string_view bytes_;
  std::string name_;
  std::size_t offset_;
};

}  // namespace winnow
