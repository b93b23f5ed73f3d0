#include "winnow/net/join/hex.h"

namespace winnow::member {
namespace {

int value_of_digit(char digit) {
  if (digit >= '0' && digit <= '9') {
    return digit - '0';
  }
  return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

}  // namespace

std::string hex_of(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    digits.push_back(kDigits[value / 16]);
    digits.push_back(kDigits[value % 16]);
  }
  return digits;
}

std::string bytes_of_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const int high = value_of_digit(digits[i]);
    const int low = i + 1 < digits.size() ? value_of_digit(digits[i + 1]) : -1;
    if (high < 0 || low < 0) {
      return {};
    }
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return bytes;
}

}  // namespace winnow::member
