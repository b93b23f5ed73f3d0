// Bytes and words in messages, which have neither: bytes go as numbers of 16 bits in a list of
// floats, a word of 64 bits as two halves in models of the same layout.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/federation/exchange.h"
#include "winnow/federation/message.h"
#include "winnow/model/state.h"

namespace winnow::mask {

// An even number of bytes.
std::vector<float> numbers_of(std::string_view bytes);
// Throws Error(kind peer) where a number is none of 16 bits.
std::string bytes_in(const std::vector<float>& numbers);
// The field of a message that holds at most so many bytes.
FieldRule letter(std::string name, std::string tells, std::int64_t most_bytes);

// As patterns of bits: the values mean nothing.
struct Halves {
  State low;
  State high;
};
Halves halves_of(std::span<const std::uint64_t> words, const LayoutPtr& layout);
// Throws Error(kind peer) where a half has another size.
std::vector<std::uint64_t> words_in(const Halves& halves);

// The field of that name, of any type; throws Error(kind peer) where there is none.
const Field& field_in(const Message& message, const std::string& name);

// Bytes that are put one after the other, numbers little-endian.
class LetterWriter {
 public:
  void put(std::uint32_t number);
  void put(std::string_view bytes) { bytes_ += bytes; }
  // With its length before it, and a byte to make it even.
  void put_counted(std::string_view bytes);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// And taken again, of a letter from outside: throws Error(kind peer) where it is too short, and
// end() where something is left.
class LetterReader {
 public:
  LetterReader(std::string_view bytes, std::string what) : rest_(bytes), what_(std::move(what)) {}

  std::uint32_t number();
  std::string take(std::size_t count);
  std::string counted(std::size_t most);
  bool done() const { return rest_.empty(); }
  void end() const;

 private:
  [[noreturn]] void refuse() const;

  std::string_view rest_;
  std::string what_;
};

}  // namespace winnow::mask
