#include "winnow/data/npy.h"

#include <c10/util/Half.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <charconv>
#include <limits>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/json.h"
#include "winnow/data/bytes.h"

namespace winnow {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

// Parses the header's Python dictionary: the three keys of the format, in any order.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name, std::size_t offset)
      : text_(text), name_(name), offset_(offset) {}

  Header parse() {
    Header header;
    int seen = 0;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        header.descr = descr();
        seen |= 1;
      } else if (key == "fortran_order") {
        header.fortran_order = truth();
        seen |= 2;
      } else if (key == "shape") {
        header.shape = shape();
        seen |= 4;
      } else {
        fail(fmt::format("unknown header key '{}'", key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (seen != 7) {
      fail("the header lacks descr, fortran_order or shape");
    }
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { damaged(name_, offset_ + at_, what); }

  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
  }
  bool accept(char wanted) {
    blanks();
    if (at_ < text_.size() && text_[at_] == wanted) {
      ++at_;
      return true;
    }
    return false;
  }
  void expect(char wanted) {
    if (!accept(wanted)) {
      fail(fmt::format("bad header: expected '{}'", wanted));
    }
  }
  std::string quoted() {
    const char quote = accept('"') ? '"' : '\'';
    if (quote == '\'') {
      expect('\'');
    }
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) {
      fail("bad header: text without an end");
    }
    std::string word(text_.substr(at_, end - at_));
    at_ = end + 1;
    return word;
  }
  // A structured dtype is a list; it is reported as an unsupported dtype like any other.
  std::string descr() {
    blanks();
    if (at_ < text_.size() && text_[at_] == '[') {
      fail("dtype with fields is not supported");
    }
    return quoted();
  }
  bool truth() {
    blanks();
    for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::string_view(word).size();
        return value;
      }
    }
    fail("bad header: expected True or False");
  }
  std::vector<std::uint64_t> shape() {
    std::vector<std::uint64_t> sizes;
    expect('(');
    while (!accept(')')) {
      std::uint64_t size = 0;
      blanks();
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error != std::errc{} || size > std::numeric_limits<std::int64_t>::max()) {
        fail("bad header: expected a size");
      }
      at_ += static_cast<std::size_t>(end - begin);
      sizes.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t offset_;
  std::size_t at_ = 0;
};

// How many letters a text dtype has, "<U12" or "|S8"; 0 for every other.
std::size_t letters_of(std::string_view descr) {
  constexpr std::size_t kMostLetters = 4096;  // a path is no longer
  if (!descr.starts_with("<U") && !descr.starts_with("|S")) {
    return 0;
  }
  std::size_t letters = 0;
  const char* const last = descr.data() + descr.size();
  const auto [end, error] = std::from_chars(descr.data() + 2, last, letters);
  return error == std::errc{} && end == last && letters <= kMostLetters ? letters : 0;
}

void append_utf8(std::uint64_t letter, std::string& text) {
  if (letter < 0x80) {
    text += static_cast<char>(letter);
    return;
  }
  const int more = letter < 0x800 ? 1 : (letter < 0x10000 ? 2 : 3);
  constexpr std::array<unsigned, 4> kFirst{0, 0xC0, 0xE0, 0xF0};
  text += static_cast<char>(kFirst[static_cast<std::size_t>(more)] | (letter >> (6 * more)));
  for (int part = more - 1; part >= 0; --part) {
    text += static_cast<char>(0x80U | ((letter >> (6 * part)) & 0x3FU));
  }
}

}  // namespace

NpyArray::NpyArray(std::string bytes, std::string name)
    : bytes_(std::move(bytes)), name_(std::move(name)) {
  ByteReader reader(bytes_, name_);
  if (!std::string_view(bytes_).starts_with(kMagic)) {
    damaged(name_, 0, "not a .npy array");
  }
  reader.skip(kMagic.size());
  const std::uint64_t version = reader.little(1);
  const std::uint64_t minor = reader.little(1);
  if ((version != 1 && version != 2) || minor != 0) {
    damaged(name_, 6, fmt::format(".npy version {}.{}, expected 1.0 or 2.0", version, minor));
  }
  const std::size_t length = reader.little(version == 1 ? 2 : 4);
  const std::size_t text_start = reader.offset();
  const Header header = HeaderParser(reader.take(length), name_, text_start).parse();
  start_ = reader.offset();
  read_dtype(header.descr);
  if (header.fortran_order) {
    throw Error(ErrorKind::data, fmt::format("{}: the array is in Fortran order", name_),
                "save numpy.ascontiguousarray(array)");
  }
  std::vector<std::uint64_t> factors = header.shape;
  factors.push_back(width_);
  shape_.assign(header.shape.begin(), header.shape.end());
  const auto expected = checked_product(factors);
  if (!expected || *expected != reader.left()) {
    damaged(name_, start_,
            fmt::format("shape {} does not fit {} bytes of data", shape_text(), reader.left()));
  }
}

void NpyArray::read_dtype(std::string_view descr) {
  if (const std::size_t letters = letters_of(descr); letters > 0) {
    kind_ = Kind::text;
    wide_ = descr[1] == 'U';
    width_ = letters * (wide_ ? 4 : 1);
    return;
  }
  const std::string_view type = descr.size() == 3 ? descr.substr(1) : std::string_view();
  const bool order_fits = !type.empty() && (descr[0] == '<' || (descr[0] == '|' && type[1] == '1'));
  const bool whole = order_fits && (type[0] == 'i' || type[0] == 'u') &&
                     std::string_view("1248").find(type[1]) != std::string_view::npos;
  const bool real = order_fits && (type == "f2" || type == "f4" || type == "f8");
  if (!whole && !real) {
    throw Error(ErrorKind::data, fmt::format("{}: dtype '{}' is not supported", name_, descr),
                "expected |u1, |i1, <i2, <i4, <i8, <u2, <u4, <u8, <f2, <f4 or <f8");
  }
  kind_ = real ? Kind::real : (type[0] == 'u' ? Kind::unsigned_whole : Kind::whole);
  width_ = static_cast<std::size_t>(type[1] - '0');
}

std::string NpyArray::shape_text() const {
  return fmt::format("({}{})", fmt::join(shape_, ", "), shape_.size() == 1 ? "," : "");
}

std::uint64_t NpyArray::raw(std::size_t index) const {
  return ByteReader(bytes_, name_, start_ + index * width_).little(width_);
}

std::int64_t NpyArray::whole(std::size_t index) const {
  if (kind_ == Kind::real || kind_ == Kind::text) {
    throw Error(ErrorKind::data, fmt::format("{}: expected whole numbers", name_));
  }
  const std::uint64_t value = raw(index);
  if (kind_ == Kind::unsigned_whole) {
    if (value > std::numeric_limits<std::int64_t>::max()) {
      damaged(name_, start_ + index * width_, fmt::format("value {} is too large", value));
    }
    return static_cast<std::int64_t>(value);
  }
  const auto spare = static_cast<int>(64 - 8 * width_);
  return static_cast<std::int64_t>(value << spare) >> spare;
}

double NpyArray::real(std::size_t index) const {
  if (kind_ != Kind::real) {
    return static_cast<double>(whole(index));
  }
  const std::uint64_t value = raw(index);
  switch (width_) {
    case 2:
      return c10::detail::fp16_ieee_to_fp32_value(static_cast<std::uint16_t>(value));
    case 4:
      return std::bit_cast<float>(static_cast<std::uint32_t>(value));
    default:
      return std::bit_cast<double>(value);
  }
}

std::string NpyArray::unicode(std::size_t index) const {
  constexpr std::uint64_t kLast = 0x10FFFF;
  ByteReader reader(bytes_, name_, start_ + index * width_);
  std::string text;
  for (std::size_t at = 0; at < width_; at += 4) {
    const std::uint64_t letter = reader.little(4);
    if (letter == 0) {
      break;
    }
    if (letter > kLast || (letter >= 0xD800 && letter < 0xE000)) {
      damaged(name_, start_ + index * width_ + at, fmt::format("{:#x} is no letter", letter));
    }
    append_utf8(letter, text);
  }
  return text;
}

std::string NpyArray::text(std::size_t index) const {
  if (kind_ != Kind::text) {
    return std::to_string(whole(index));
  }
  if (wide_) {
    return unicode(index);
  }
  const std::string_view field = data().substr(index * width_, width_);
  std::string text(field.substr(0, field.find('\0')));
  if (!is_utf8(text)) {
    throw Error(ErrorKind::data, fmt::format("{}: text {} is not UTF-8", name_, index));
  }
  return text;
}

NpyArray read_npy(const std::filesystem::path& path) {
  return {read_file(path), path.string()};
}

}  // namespace winnow
