#include "winnow/noise/image/jpeg.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "winnow/base/math.h"

namespace winnow::distortion {
namespace {

constexpr std::int64_t kBlock = 8;
constexpr std::int64_t kUnit = 16;  // a block of half-size chroma covers 16 pixels

constexpr JpegTable kLumaBase{16,  11,  10,  16,  24, 40, 51,  61,  12,  12,  14,  19,  26,
                              58,  60,  55,  14,  13, 16, 24,  40,  57,  69,  56,  14,  17,
                              22,  29,  51,  87,  80, 62, 18,  22,  37,  56,  68,  109, 103,
                              77,  24,  35,  55,  64, 81, 104, 113, 92,  49,  64,  78,  87,
                              103, 121, 120, 101, 72, 92, 95,  98,  112, 100, 103, 99};

constexpr std::array<int, 16> kChromaCorner{17, 18, 24, 47, 18, 21, 26, 66,
                                            24, 26, 56, 99, 47, 66, 99, 99};

JpegTable scaled(const JpegTable& base, int quality) {
  const int scale = quality < 50 ? 5000 / quality : 200 - 2 * quality;
  JpegTable table{};
  std::transform(base.begin(), base.end(), table.begin(),
                 [scale](int entry) { return std::clamp((entry * scale + 50) / 100, 1, 255); });
  return table;
}

using Square = std::array<double, 64>;

// cosine[k * 8 + n] = cos((2n + 1) k pi / 16), its transpose, and the factors that make the pair
// orthonormal. The factors stand apart so that a flat block, all in the exact factor 1/8, stays
// exact.
struct Transform {
  Square cosine{};
  Square transposed{};
  Square norm{};

  Transform() {
    for (std::size_t k = 0; k < 8; ++k) {
      for (std::size_t n = 0; n < 8; ++n) {
        const auto turns = static_cast<double>((2 * n + 1) * k);
        cosine[k * 8 + n] = k == 0 ? 1.0 : math::cos(turns * std::numbers::pi / 16.0);
        transposed[n * 8 + k] = cosine[k * 8 + n];
        norm[k * 8 + n] = 0.25 * (k == 0 && n == 0   ? 0.5
                                  : k == 0 || n == 0 ? 1.0 / std::numbers::sqrt2
                                                     : 1.0);
      }
    }
  }
};

// out = left * right for 8x8 matrices.
void multiply(const double* left, const double* right, double* out) {
  for (std::size_t y = 0; y < 8; ++y) {
    std::array<double, 8> sums{};
    for (std::size_t k = 0; k < 8; ++k) {
      const double factor = left[y * 8 + k];
      for (std::size_t x = 0; x < 8; ++x) {
        sums[x] += factor * right[k * 8 + x];
      }
    }
    std::copy(sums.begin(), sums.end(), out + y * 8);
  }
}

// One component of the file: levels, whole blocks in both directions.
struct Component {
  Component(std::int64_t rows, std::int64_t columns)
      : height(rows), width(columns), levels(static_cast<std::size_t>(rows * columns)) {}

  double* row(std::int64_t y) { return levels.data() + y * width; }
  const double* row(std::int64_t y) const { return levels.data() + y * width; }

  std::int64_t height;
  std::int64_t width;
  std::vector<double> levels;
};

void quantise(Component& component, const JpegTable& table) {
  Square block{};
  for (std::int64_t y = 0; y < component.height; y += kBlock) {
    for (std::int64_t x = 0; x < component.width; x += kBlock) {
      for (std::int64_t i = 0; i < kBlock; ++i) {
        std::copy_n(component.row(y + i) + x, kBlock, block.begin() + i * kBlock);
      }
      jpeg_block(block, table);
      for (std::int64_t i = 0; i < kBlock; ++i) {
        std::copy_n(block.begin() + i * kBlock, kBlock, component.row(y + i) + x);
      }
    }
  }
}

std::int64_t round_up(std::int64_t length, std::int64_t unit) {
  return (length + unit - 1) / unit * unit;
}

double rounded(double value) {
  return std::floor(value + 0.5);
}

struct Components {
  Component y;
  Component cb;
  Component cr;
};

// Colours to luma and chroma at full size, the right and lower edge repeated up to whole units.
Components to_components(const ImageView& image) {
  const std::int64_t height = round_up(image.height, kUnit);
  const std::int64_t width = round_up(image.width, kUnit);
  Components out{Component(height, width), Component(height, width), Component(height, width)};
  for (std::int64_t y = 0; y < height; ++y) {
    const std::int64_t from = std::min(y, image.height - 1) * image.width;
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t at = from + std::min(x, image.width - 1);
      const double r = image.channel(0)[at];
      const double g = image.channel(1)[at];
      const double b = image.channel(2)[at];
      out.y.row(y)[x] = rounded(.299 * r + .587 * g + .114 * b);
      out.cb.row(y)[x] = rounded(128.0 - .168735892 * r - .331264108 * g + .5 * b);
      out.cr.row(y)[x] = rounded(128.0 + .5 * r - .418687589 * g - .081312411 * b);
    }
  }
  return out;
}

// Means over 2x2, rounded with a bias that alternates 1, 2 along a row.
Component halve(const Component& full) {
  Component out(full.height / 2, full.width / 2);
  for (std::int64_t y = 0; y < out.height; ++y) {
    const double* above = full.row(2 * y);
    const double* below = full.row(2 * y + 1);
    for (std::int64_t x = 0; x < out.width; ++x) {
      const double sum = above[2 * x] + above[2 * x + 1] + below[2 * x] + below[2 * x + 1];
      out.row(y)[x] = std::floor((sum + (x % 2 == 0 ? 1.0 : 2.0)) / 4.0);
    }
  }
  return out;
}

// Twice the size by the triangle filter: weights 9, 3, 3, 1 over 16, edges repeated. Only the
// `height` x `width` part that belongs to the picture takes part.
Component twice(const Component& half, std::int64_t height, std::int64_t width) {
  const std::int64_t last_row = (height + 1) / 2 - 1;
  const std::int64_t last_column = (width + 1) / 2 - 1;
  Component out(height, width);
  for (std::int64_t y = 0; y < height; ++y) {
    const double* near = half.row(y / 2);
    const double* far =
        half.row(std::clamp<std::int64_t>(y / 2 + (y % 2 == 0 ? -1 : 1), 0, last_row));
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t at = x / 2;
      const std::int64_t side =
          std::clamp<std::int64_t>(at + (x % 2 == 0 ? -1 : 1), 0, last_column);
      const double sum = 9.0 * near[at] + 3.0 * near[side] + 3.0 * far[at] + far[side];
      out.row(y)[x] = std::floor((sum + (x % 2 == 0 ? 8.0 : 7.0)) / 16.0);
    }
  }
  return out;
}

void grey_round_trip(const ImageView& image, int quality) {
  Component luma(round_up(image.height, kBlock), round_up(image.width, kBlock));
  for (std::int64_t y = 0; y < luma.height; ++y) {
    const std::uint8_t* from = image.data + std::min(y, image.height - 1) * image.width;
    for (std::int64_t x = 0; x < luma.width; ++x) {
      luma.row(y)[x] = from[std::min(x, image.width - 1)];
    }
  }
  quantise(luma, jpeg_luma_table(quality));
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      image.data[y * image.width + x] = round_to_byte(luma.row(y)[x]);
    }
  }
}

}  // namespace

JpegTable jpeg_luma_table(int quality) {
  return scaled(kLumaBase, quality);
}

JpegTable jpeg_chroma_table(int quality) {
  JpegTable base{};
  base.fill(99);
  for (std::size_t i = 0; i < kChromaCorner.size(); ++i) {
    base[i / 4 * 8 + i % 4] = kChromaCorner[i];
  }
  return scaled(base, quality);
}

void jpeg_block(std::span<double, 64> levels, const JpegTable& table) {
  static const Transform transform;
  Square block{};
  Square half{};
  std::transform(levels.begin(), levels.end(), block.begin(),
                 [](double level) { return level - 128.0; });
  multiply(transform.cosine.data(), block.data(), half.data());
  multiply(half.data(), transform.transposed.data(), block.data());
  for (std::size_t i = 0; i < block.size(); ++i) {
    const double coefficient = block[i] * transform.norm[i] / table[i];
    const double whole = std::trunc(coefficient + std::copysign(0.5, coefficient));
    block[i] = whole * table[i] * transform.norm[i];
  }
  multiply(transform.transposed.data(), block.data(), half.data());
  multiply(half.data(), transform.cosine.data(), block.data());
  std::transform(block.begin(), block.end(), levels.begin(),
                 [](double value) { return static_cast<double>(round_to_byte(value + 128.0)); });
}

void jpeg_round_trip(const ImageView& image, int quality) {
  if (image.channels == 1) {
    grey_round_trip(image, quality);
    return;
  }
  Components full = to_components(image);
  Component small_cb = halve(full.cb);
  Component small_cr = halve(full.cr);
  quantise(full.y, jpeg_luma_table(quality));
  const JpegTable chroma = jpeg_chroma_table(quality);
  quantise(small_cb, chroma);
  quantise(small_cr, chroma);
  const Component cb = twice(small_cb, image.height, image.width);
  const Component cr = twice(small_cr, image.height, image.width);
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      const double luma = full.y.row(y)[x];
      const double blue = cb.row(y)[x] - 128.0;
      const double red = cr.row(y)[x] - 128.0;
      const std::int64_t at = y * image.width + x;
      image.channel(0)[at] = round_to_byte(luma + 1.402 * red);
      image.channel(1)[at] = round_to_byte(luma - .344136286 * blue - .714136286 * red);
      image.channel(2)[at] = round_to_byte(luma + 1.772 * blue);
    }
  }
}

}  // namespace winnow::distortion
