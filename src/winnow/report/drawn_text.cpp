#include "winnow/report/drawn_text.h"

#include <algorithm>
#include <array>

namespace winnow {
namespace {

// The length of the UTF-8 character at the start of `text`; 0 when it is none, or a control or
// other character that XML forbids.
std::size_t character_length(std::string_view text) {
  const unsigned first = static_cast<unsigned char>(text.front());
  if (first < 0x80) {
    return first < 0x20 || first == 0x7f ? 0 : 1;
  }
  constexpr std::array<unsigned, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  const std::size_t length = first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (length == 0 || first > 0xf7 || length > text.size()) {
    return 0;
  }
  unsigned code = first & (0xffU >> (length + 1));
  for (const char c : text.substr(1, length - 1)) {
    const unsigned next = static_cast<unsigned char>(c);
    if ((next & 0xc0U) != 0x80U) {
      return 0;
    }
    code = (code << 6U) | (next & 0x3fU);
  }
  const bool forbidden = code < 0xa0 || (code >= 0xd800 && code < 0xe000) || code == 0xfffe ||
                         code == 0xffff || code > 0x10ffff;
  return forbidden || code < kSmallest.at(length) ? 0 : length;
}

}  // namespace

std::string clean(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    out += length == 0 ? "?" : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return out;
}

std::string escaped(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>\"'";
  constexpr std::array<std::string_view, 5> kWritten{"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  std::string out;
  for (const char c : clean(text)) {
    const std::size_t place = kSpecial.find(c);
    out += place == std::string_view::npos ? std::string_view(&c, 1) : kWritten.at(place);
  }
  return out;
}

std::size_t length_of(std::string_view cleaned) {
  return static_cast<std::size_t>(
      std::count_if(cleaned.begin(), cleaned.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace winnow
