// What ranks tell each other, as bytes. They run the same program, so nothing is checked but that
// the bytes are there.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "winnow/base/error.h"

namespace winnow {

class ByteWriter {
 public:
  template <typename T>
  ByteWriter& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  ByteWriter& text(std::string_view value) {
    put(static_cast<std::uint64_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  template <typename T>
  ByteWriter& list(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) {
      put(value);
    }
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T get() {
    T value;
    std::memcpy(&value, cut(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(cut(get<std::uint64_t>())); }
  template <typename T>
  std::vector<T> list() {
    std::vector<T> values(get<std::uint64_t>());
    for (T& value : values) {
      value = get<T>();
    }
    return values;
  }

 private:
  std::string_view cut(std::uint64_t size) {
    if (size > rest_.size()) {
      throw Error(ErrorKind::internal, "a message between ranks is cut short");
    }
    const std::string_view part = rest_.substr(0, size);
    rest_.remove_prefix(part.size());
    return part;
  }

  std::string_view rest_;
};

}  // namespace winnow
