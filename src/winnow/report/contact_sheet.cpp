#include "winnow/report/contact_sheet.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "winnow/base/error.h"
#include "winnow/base/png.h"

namespace winnow {
namespace {

constexpr std::int64_t kMargin = 8;      // around the sheet and between label and images
constexpr std::int64_t kGap = 3;         // between images
constexpr std::int64_t kLeastSide = 56;  // of an enlarged image
constexpr std::int64_t kTextScale = 2;
constexpr std::int64_t kGlyphWidth = 5;
constexpr std::int64_t kGlyphHeight = 7;
constexpr std::int64_t kAdvance = (kGlyphWidth + 1) * kTextScale;
constexpr std::int64_t kDescent = 2;  // dots that a letter may reach below the line
constexpr std::int64_t kTextHeight = (kGlyphHeight + kDescent) * kTextScale;
constexpr std::uint8_t kInk = 0x20;
constexpr std::uint8_t kPaper = 0xff;

// Rows from the top, five bits each, the highest bit at the left.
using Glyph = std::array<std::uint8_t, kGlyphHeight>;

struct Letter {
  char code;
  Glyph glyph;
  std::int64_t drop = 0;  // dots below the others
};

constexpr Letter kUnknown{'?', {0x1f, 0x11, 0x11, 0x11, 0x11, 0x11, 0x1f}};

// clang-format off
constexpr std::array<Letter, 72> kFont{{
    {'A', {0x0e, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11}},
    {'B', {0x1e, 0x11, 0x11, 0x1e, 0x11, 0x11, 0x1e}},
    {'C', {0x0e, 0x11, 0x10, 0x10, 0x10, 0x11, 0x0e}},
    {'D', {0x1c, 0x12, 0x11, 0x11, 0x11, 0x12, 0x1c}},
    {'E', {0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x1f}},
    {'F', {0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x10}},
    {'G', {0x0e, 0x11, 0x10, 0x17, 0x11, 0x11, 0x0f}},
    {'H', {0x11, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11}},
    {'I', {0x0e, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0e}},
    {'J', {0x07, 0x02, 0x02, 0x02, 0x02, 0x12, 0x0c}},
    {'K', {0x11, 0x12, 0x14, 0x18, 0x14, 0x12, 0x11}},
    {'L', {0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x1f}},
    {'M', {0x11, 0x1b, 0x15, 0x15, 0x11, 0x11, 0x11}},
    {'N', {0x11, 0x19, 0x15, 0x13, 0x11, 0x11, 0x11}},
    {'O', {0x0e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e}},
    {'P', {0x1e, 0x11, 0x11, 0x1e, 0x10, 0x10, 0x10}},
    {'Q', {0x0e, 0x11, 0x11, 0x11, 0x15, 0x12, 0x0d}},
    {'R', {0x1e, 0x11, 0x11, 0x1e, 0x14, 0x12, 0x11}},
    {'S', {0x0f, 0x10, 0x10, 0x0e, 0x01, 0x01, 0x1e}},
    {'T', {0x1f, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04}},
    {'U', {0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e}},
    {'V', {0x11, 0x11, 0x11, 0x11, 0x11, 0x0a, 0x04}},
    {'W', {0x11, 0x11, 0x11, 0x15, 0x15, 0x15, 0x0a}},
    {'X', {0x11, 0x11, 0x0a, 0x04, 0x0a, 0x11, 0x11}},
    {'Y', {0x11, 0x11, 0x11, 0x0a, 0x04, 0x04, 0x04}},
    {'Z', {0x1f, 0x01, 0x02, 0x04, 0x08, 0x10, 0x1f}},
    {'a', {0x00, 0x00, 0x0e, 0x01, 0x0f, 0x11, 0x0f}},
    {'b', {0x10, 0x10, 0x16, 0x19, 0x11, 0x11, 0x1e}},
    {'c', {0x00, 0x00, 0x0e, 0x11, 0x10, 0x11, 0x0e}},
    {'d', {0x01, 0x01, 0x0d, 0x13, 0x11, 0x11, 0x0f}},
    {'e', {0x00, 0x00, 0x0e, 0x11, 0x1f, 0x10, 0x0e}},
    {'f', {0x06, 0x09, 0x08, 0x1c, 0x08, 0x08, 0x08}},
    {'g', {0x0f, 0x11, 0x11, 0x11, 0x0f, 0x01, 0x0e}, kDescent},
    {'h', {0x10, 0x10, 0x16, 0x19, 0x11, 0x11, 0x11}},
    {'i', {0x04, 0x00, 0x0c, 0x04, 0x04, 0x04, 0x0e}},
    {'j', {0x02, 0x00, 0x06, 0x02, 0x02, 0x12, 0x0c}},
    {'k', {0x10, 0x10, 0x12, 0x14, 0x18, 0x14, 0x12}},
    {'l', {0x0c, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0e}},
    {'m', {0x00, 0x00, 0x1a, 0x15, 0x15, 0x15, 0x15}},
    {'n', {0x00, 0x00, 0x16, 0x19, 0x11, 0x11, 0x11}},
    {'o', {0x00, 0x00, 0x0e, 0x11, 0x11, 0x11, 0x0e}},
    {'p', {0x1e, 0x11, 0x11, 0x11, 0x1e, 0x10, 0x10}, kDescent},
    {'q', {0x0f, 0x11, 0x11, 0x11, 0x0f, 0x01, 0x01}, kDescent},
    {'r', {0x00, 0x00, 0x16, 0x19, 0x10, 0x10, 0x10}},
    {'s', {0x00, 0x00, 0x0f, 0x10, 0x0e, 0x01, 0x1e}},
    {'t', {0x08, 0x08, 0x1c, 0x08, 0x08, 0x09, 0x06}},
    {'u', {0x00, 0x00, 0x11, 0x11, 0x11, 0x13, 0x0d}},
    {'v', {0x00, 0x00, 0x11, 0x11, 0x11, 0x0a, 0x04}},
    {'w', {0x00, 0x00, 0x11, 0x11, 0x15, 0x15, 0x0a}},
    {'x', {0x00, 0x00, 0x11, 0x0a, 0x04, 0x0a, 0x11}},
    {'y', {0x11, 0x11, 0x11, 0x11, 0x0f, 0x01, 0x0e}, kDescent},
    {'z', {0x00, 0x00, 0x1f, 0x02, 0x04, 0x08, 0x1f}},
    {'0', {0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e}},
    {'1', {0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e}},
    {'2', {0x0e, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1f}},
    {'3', {0x1f, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0e}},
    {'4', {0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02}},
    {'5', {0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e}},
    {'6', {0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e}},
    {'7', {0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08}},
    {'8', {0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e}},
    {'9', {0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c}},
    {'_', {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1f}},
    {'-', {0x00, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x00}},
    {'.', {0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x0c}},
    {',', {0x00, 0x00, 0x00, 0x00, 0x0c, 0x04, 0x08}},
    {':', {0x00, 0x0c, 0x0c, 0x00, 0x0c, 0x0c, 0x00}},
    {'/', {0x00, 0x01, 0x02, 0x04, 0x08, 0x10, 0x00}},
    {'(', {0x02, 0x04, 0x08, 0x08, 0x08, 0x04, 0x02}},
    {')', {0x08, 0x04, 0x02, 0x02, 0x02, 0x04, 0x08}},
    {'%', {0x18, 0x19, 0x02, 0x04, 0x08, 0x13, 0x03}},
    {' ', {0, 0, 0, 0, 0, 0, 0}},
}};
// clang-format on

const Letter& letter_of(char code) {
  const auto* const found = std::find_if(kFont.begin(), kFont.end(),
                                         [&](const Letter& letter) { return letter.code == code; });
  return found == kFont.end() ? kUnknown : *found;
}

// One code per character: the bytes that continue a UTF-8 character are dropped.
std::string drawable(std::string_view text) {
  std::string codes;
  std::copy_if(text.begin(), text.end(), std::back_inserter(codes),
               [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; });
  return codes;
}

std::int64_t text_width(std::string_view text) {
  return std::ssize(drawable(text)) * kAdvance;
}

class Canvas {
 public:
  Canvas(std::int64_t width, std::int64_t height)
      : width_(width),
        height_(height),
        pixels_(static_cast<std::size_t>(width * height * 3), kPaper) {}

  void draw_text(std::int64_t left, std::int64_t top, std::string_view text) {
    for (const char code : drawable(text)) {
      const Letter& letter = letter_of(code);
      for (std::int64_t y = 0; y < kGlyphHeight * kTextScale; ++y) {
        const unsigned bits = letter.glyph[static_cast<std::size_t>(y / kTextScale)];
        for (std::int64_t x = 0; x < kGlyphWidth * kTextScale; ++x) {
          if (((bits >> (kGlyphWidth - 1 - x / kTextScale)) & 1U) != 0) {
            std::fill_n(pixel(left + x, top + letter.drop * kTextScale + y), 3, kInk);
          }
        }
      }
      left += kAdvance;
    }
  }

  void draw_image(std::int64_t left, std::int64_t top, const at::Tensor& image,
                  std::int64_t factor) {
    const at::Tensor planes = image.cpu().contiguous();
    const std::uint8_t* from = planes.data_ptr<std::uint8_t>();
    const std::int64_t height = planes.size(1);
    const std::int64_t width = planes.size(2);
    // A grey plane serves all three colours.
    const std::int64_t plane = planes.size(0) == 1 ? 0 : height * width;
    for (std::int64_t y = 0; y < height * factor; ++y) {
      for (std::int64_t x = 0; x < width * factor; ++x) {
        const std::uint8_t* source = from + (y / factor) * width + x / factor;
        std::uint8_t* to = pixel(left + x, top + y);
        to[0] = source[0];
        to[1] = source[plane];
        to[2] = source[2 * plane];
      }
    }
  }

  std::string png() const { return encode_png(pixels_, width_, height_, 3); }

 private:
  std::uint8_t* pixel(std::int64_t x, std::int64_t y) {
    return pixels_.data() + 3 * (y * width_ + x);
  }

  std::int64_t width_;
  std::int64_t height_;
  std::vector<std::uint8_t> pixels_;
};

struct Tile {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

std::string shape_text(const at::Tensor& image) {
  return image.defined() ? fmt::format("{} [{}]", c10::toString(image.scalar_type()),
                                       fmt::join(image.sizes(), ","))
                         : "nothing";
}

// The size that all images share.
Tile common_size(std::span<const ContactRow> rows) {
  Tile size;
  for (const ContactRow& row : rows) {
    for (const at::Tensor& image : row.images) {
      if (!image.defined() || image.scalar_type() != at::kByte || image.dim() != 3 ||
          (image.size(0) != 1 && image.size(0) != 3) || image.numel() == 0) {
        throw Error(ErrorKind::internal,
                    fmt::format("row '{}' of a contact sheet holds {}, expected Byte [c,h,w] with "
                                "1 or 3 channels",
                                row.label, shape_text(image)));
      }
      if (size.height == 0) {
        size = {image.size(1), image.size(2)};
      }
      if (image.size(1) != size.height || image.size(2) != size.width) {
        throw Error(ErrorKind::internal,
                    fmt::format("row '{}' of a contact sheet holds an image of {} x {} pixels, "
                                "the first one has {} x {}",
                                row.label, image.size(2), image.size(1), size.width, size.height));
      }
    }
  }
  if (size.height == 0) {
    throw Error(ErrorKind::internal, "a contact sheet needs at least one image");
  }
  return size;
}

}  // namespace

std::string contact_sheet_png(std::span<const ContactRow> rows, std::string_view header) {
  const Tile small = common_size(rows);
  const std::int64_t side = std::max(small.height, small.width);
  const std::int64_t factor = (kLeastSide + side - 1) / side;
  const Tile tile{small.height * factor, small.width * factor};
  const std::int64_t row_height = std::max(tile.height, kTextHeight);

  std::int64_t label_width = 0;
  std::int64_t longest = 0;
  for (const ContactRow& row : rows) {
    label_width = std::max(label_width, text_width(row.label));
    longest = std::max(longest, std::ssize(row.images));
  }
  const std::int64_t left = kMargin + (label_width == 0 ? 0 : label_width + kMargin);
  const std::int64_t top = kMargin + (header.empty() ? 0 : kTextHeight + kMargin);
  const std::int64_t count = std::ssize(rows);
  Canvas canvas(
      std::max(left + longest * (tile.width + kGap) - kGap, kMargin + text_width(header)) + kMargin,
      top + count * (row_height + kGap) - kGap + kMargin);

  canvas.draw_text(kMargin, kMargin, header);
  std::int64_t y = top;
  for (const ContactRow& row : rows) {
    canvas.draw_text(kMargin, y + (row_height - kTextHeight) / 2, row.label);
    std::int64_t x = left;
    for (const at::Tensor& image : row.images) {
      canvas.draw_image(x, y, image, factor);
      x += tile.width + kGap;
    }
    y += row_height + kGap;
  }
  return canvas.png();
}

}  // namespace winnow
