#include "winnow/net/mask/letters.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "winnow/base/error.h"

namespace winnow::mask {
namespace {

constexpr double kMostNumber = 65535.0;

}  // namespace

std::vector<float> numbers_of(std::string_view bytes) {
  if (bytes.size() % 2 != 0) {
    throw Error(ErrorKind::internal, "a letter has an odd number of bytes");
  }
  std::vector<float> numbers;
  numbers.reserve(bytes.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const unsigned low = static_cast<unsigned char>(bytes[i]);
    const unsigned high = static_cast<unsigned char>(bytes[i + 1]);
    numbers.push_back(static_cast<float>(low | (high << 8U)));
  }
  return numbers;
}

std::string bytes_in(const std::vector<float>& numbers) {
  std::string bytes;
  bytes.reserve(2 * numbers.size());
  for (const float number : numbers) {
    if (!(number >= 0.0F && number <= kMostNumber) || number != std::floor(number)) {
      throw Error(ErrorKind::peer, "a letter holds a number that is not of 16 bits");
    }
    const auto value = static_cast<unsigned>(number);
    bytes.push_back(static_cast<char>(value & 0xFFU));
    bytes.push_back(static_cast<char>(value >> 8U));
  }
  return bytes;
}

FieldRule letter(std::string name, std::string tells, std::int64_t most_bytes) {
  return field::floats(std::move(name), std::move(tells), Length::up_to(most_bytes / 2, "m"))
      .between(0.0, kMostNumber);
}

Halves halves_of(std::span<const std::uint64_t> words, const LayoutPtr& layout) {
  Halves halves{State::zeros(layout), State::zeros(layout)};
  auto* low = static_cast<char*>(halves.low.flat.data_ptr());
  auto* high = static_cast<char*>(halves.high.flat.data_ptr());
  for (const std::uint64_t word : words) {
    const auto lower = static_cast<std::uint32_t>(word);
    const auto upper = static_cast<std::uint32_t>(word >> 32U);
    std::memcpy(low, &lower, sizeof lower);
    std::memcpy(high, &upper, sizeof upper);
    low += sizeof lower;
    high += sizeof upper;
  }
  return halves;
}

std::vector<std::uint64_t> words_in(const Halves& halves) {
  const at::Tensor low = halves.low.flat.to(at::kCPU).contiguous();
  const at::Tensor high = halves.high.flat.to(at::kCPU).contiguous();
  if (low.numel() != high.numel()) {
    throw Error(ErrorKind::peer, "the halves of masked words differ in size");
  }
  std::vector<std::uint64_t> words(static_cast<std::size_t>(low.numel()));
  const auto* lower = static_cast<const char*>(low.data_ptr());
  const auto* upper = static_cast<const char*>(high.data_ptr());
  for (std::uint64_t& word : words) {
    std::uint32_t half = 0;
    std::memcpy(&half, upper, sizeof half);
    word = static_cast<std::uint64_t>(half) << 32U;
    std::memcpy(&half, lower, sizeof half);
    word |= half;
    lower += sizeof half;
    upper += sizeof half;
  }
  return words;
}

const Field& field_in(const Message& message, const std::string& name) {
  const auto& fields = message.fields();
  const auto found =
      std::ranges::find_if(fields, [&](const auto& field) { return field.first == name; });
  if (found == fields.end()) {
    throw Error(ErrorKind::peer,
                fmt::format("message '{}' has no field '{}'", message.kind(), name));
  }
  return found->second;
}

void LetterWriter::put(std::uint32_t number) {
  for (unsigned shift = 0; shift < 32; shift += 8) {
    bytes_.push_back(static_cast<char>((number >> shift) & 0xFFU));
  }
}

void LetterWriter::put_counted(std::string_view bytes) {
  put(static_cast<std::uint32_t>(bytes.size()));
  bytes_ += bytes;
  if (bytes.size() % 2 != 0) {
    bytes_.push_back('\0');
  }
}

void LetterReader::refuse() const {
  throw Error(ErrorKind::peer, fmt::format("{} has another length than it should", what_));
}

std::string LetterReader::take(std::size_t count) {
  if (count > rest_.size()) {
    refuse();
  }
  std::string taken(rest_.substr(0, count));
  rest_.remove_prefix(count);
  return taken;
}

std::uint32_t LetterReader::number() {
  std::uint32_t number = 0;
  const std::string bytes = take(sizeof number);
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

std::string LetterReader::counted(std::size_t most) {
  const std::size_t count = number();
  if (count > most) {
    refuse();
  }
  std::string taken = take(count);
  if (count % 2 != 0) {
    take(1);
  }
  return taken;
}

void LetterReader::end() const {
  if (!done()) {
    refuse();
  }
}

}  // namespace winnow::mask
