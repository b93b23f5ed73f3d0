// The picture as the distortions see it: a planar view of bytes, and one channel as floats.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace winnow {

// One image inside a data set: planar (all of channel 0, then channel 1, ...), rows from the top,
// 1 channel (grey) or 3 channels (red, green, blue). Does not own the bytes.
struct ImageView {
  std::uint8_t* data = nullptr;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  std::int64_t area() const { return height * width; }
  std::int64_t size() const { return channels * area(); }
  std::uint8_t* channel(std::int64_t c) const { return data + c * area(); }
};

namespace distortion {

// The value of a constant at severity 1..5.
template <typename T>
using PerSeverity = std::array<T, 5>;

template <typename T>
const T& at_severity(const PerSeverity<T>& table, int severity) {
  return table.at(static_cast<std::size_t>(severity - 1));
}

// One channel as floats, rows from the top. Values are in [0,1] unless a function says "levels",
// which means 0..255.
struct Plane {
  Plane(std::int64_t rows, std::int64_t columns)
      : height(rows), width(columns), values(static_cast<std::size_t>(rows * columns)) {}

  float* row(std::int64_t y) { return values.data() + y * width; }
  const float* row(std::int64_t y) const { return values.data() + y * width; }
  std::int64_t area() const { return height * width; }

  std::int64_t height;
  std::int64_t width;
  std::vector<float> values;
};

// Clips to [0,1], times 255, truncated. A value within half a thousandth of the next level counts
// as that level, so that rounding in single precision never costs one: level/255 always comes back.
inline std::uint8_t truncate_to_byte(float unit) {
  const float level = unit * 255.0F + 0.0005F;
  const float clipped = level < 0.0F ? 0.0F : (level > 255.0F ? 255.0F : level);
  return static_cast<std::uint8_t>(static_cast<int>(clipped));
}

// floor(level + 1/2), clamped to 0..255.
inline std::uint8_t round_to_byte(double level) {
  const double clipped = level < 0.0 ? 0.0 : (level > 255.0 ? 255.0 : level);
  return static_cast<std::uint8_t>(std::floor(clipped + 0.5));
}

Plane load_plane(const ImageView& image, std::int64_t channel);                       // in [0,1]
Plane load_levels(const ImageView& image, std::int64_t channel);                      // in 0..255
void store_plane(const Plane& plane, const ImageView& image, std::int64_t channel);   // truncates
void store_levels(const Plane& plane, const ImageView& image, std::int64_t channel);  // rounds

struct Rgb {
  float r = 0.0F;
  float g = 0.0F;
  float b = 0.0F;
};

// The brightness of a colour, .299 R + .587 G + .114 B.
inline float luma(const Rgb& colour) {
  return 0.299F * colour.r + 0.587F * colour.g + 0.114F * colour.b;
}

// Replaces every pixel by colour_of(pixel, y, x), truncated. A grey image is shown to colour_of as
// R = G = B, and the luma of the answer is written back.
template <typename Function>
void map_colours(const ImageView& image, const Function& colour_of) {
  const std::int64_t area = image.area();
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      std::uint8_t* at = image.data + y * image.width + x;
      if (image.channels == 1) {
        const float grey = static_cast<float>(*at) / 255.0F;
        *at = truncate_to_byte(luma(colour_of(Rgb{grey, grey, grey}, y, x)));
        continue;
      }
      const Rgb before{static_cast<float>(at[0]) / 255.0F, static_cast<float>(at[area]) / 255.0F,
                       static_cast<float>(at[2 * area]) / 255.0F};
      const Rgb after = colour_of(before, y, x);
      at[0] = truncate_to_byte(after.r);
      at[area] = truncate_to_byte(after.g);
      at[2 * area] = truncate_to_byte(after.b);
    }
  }
}

}  // namespace distortion
}  // namespace winnow
