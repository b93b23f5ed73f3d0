// Small pictures for the tests of the distortions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "winnow/base/random.h"
#include "winnow/noise/image/distortion_image.h"

namespace winnow::testing_pictures {

// An image that owns its bytes.
struct Picture {
  Picture(std::int64_t channel_count, std::int64_t rows, std::int64_t columns,
          std::uint8_t level = 0)
      : channels(channel_count),
        height(rows),
        width(columns),
        bytes(static_cast<std::size_t>(channel_count * rows * columns), level) {}

  ImageView view() { return {bytes.data(), channels, height, width}; }
  std::uint8_t& at(std::int64_t c, std::int64_t y, std::int64_t x) {
    return bytes[static_cast<std::size_t>((c * height + y) * width + x)];
  }

  std::int64_t channels;
  std::int64_t height;
  std::int64_t width;
  std::vector<std::uint8_t> bytes;
};

inline Picture flat(std::int64_t channels, std::int64_t side, std::uint8_t level) {
  return {channels, side, side, level};
}

// A sky over ground, a bright disc and a striped, slightly textured object: edges, gradients and
// flat parts, as photographs have.
inline Picture natural(std::int64_t channels, std::int64_t side, std::uint64_t seed = 1) {
  Stream stream(seed, "picture");
  Picture picture(channels, side, side);
  const auto size = static_cast<double>(side);
  const double centre_x = stream.uniform(0.3, 0.7) * size;
  const double centre_y = stream.uniform(0.3, 0.7) * size;
  const double radius = stream.uniform(0.15, 0.3) * size;
  const double stripes = stream.uniform(0.5, 1.2);
  for (std::int64_t y = 0; y < side; ++y) {
    for (std::int64_t x = 0; x < side; ++x) {
      const double down = static_cast<double>(y) / size;
      const double texture = stream.uniform(-8.0, 8.0);
      const bool disc =
          std::hypot(static_cast<double>(x) - centre_x, static_cast<double>(y) - centre_y) < radius;
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto tint = static_cast<double>(c);
        double level = down < 0.6 ? 90.0 + 40.0 * tint - 60.0 * down : 110.0 - 25.0 * tint;
        if (disc) {
          level = 170.0 - 50.0 * tint + 40.0 * std::sin(stripes * static_cast<double>(x));
        }
        picture.at(c, y, x) = static_cast<std::uint8_t>(std::clamp(level + texture, 0.0, 255.0));
      }
    }
  }
  return picture;
}

inline double mean_change(const Picture& one, const Picture& two) {
  double sum = 0.0;
  for (std::size_t i = 0; i < one.bytes.size(); ++i) {
    sum += std::abs(static_cast<int>(one.bytes[i]) - static_cast<int>(two.bytes[i]));
  }
  return sum / static_cast<double>(one.bytes.size());
}

inline int largest_change(const Picture& one, const Picture& two) {
  int most = 0;
  for (std::size_t i = 0; i < one.bytes.size(); ++i) {
    most =
        std::max(most, std::abs(static_cast<int>(one.bytes[i]) - static_cast<int>(two.bytes[i])));
  }
  return most;
}

}  // namespace winnow::testing_pictures
