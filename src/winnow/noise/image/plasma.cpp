#include "winnow/noise/image/plasma.h"

#include <algorithm>

namespace winnow::distortion {
namespace {

class DiamondSquare {
 public:
  DiamondSquare(std::int64_t side, Stream& stream) : field_(side, side), stream_(stream) {}

  // The centre of every step x step cell from its four corners.
  void squares(std::int64_t step, double roughness) {
    const std::int64_t half = step / 2;
    for (std::int64_t y = 0; y < field_.height; y += step) {
      for (std::int64_t x = 0; x < field_.width; x += step) {
        const float corners = at(y, x) + at(y + step, x) + at(y, x + step) + at(y + step, x + step);
        at(y + half, x + half) = wobble(corners, roughness);
      }
    }
  }

  // The middles of the upper and the left side of every cell, using the new centres.
  void diamonds(std::int64_t step, double roughness) {
    const std::int64_t half = step / 2;
    for (std::int64_t y = 0; y < field_.height; y += step) {
      for (std::int64_t x = 0; x < field_.width; x += step) {
        const float centre = at(y + half, x + half);
        const float corner = at(y, x);
        at(y, x + half) =
            wobble(centre + at(y - half, x + half) + corner + at(y, x + step), roughness);
        at(y + half, x) =
            wobble(centre + at(y + half, x - half) + corner + at(y + step, x), roughness);
      }
    }
  }

  Plane take() { return std::move(field_); }

 private:
  float& at(std::int64_t y, std::int64_t x) {
    // The side is a power of two: the mask wraps both ways round.
    const std::int64_t mask = field_.width - 1;
    return field_.row(y & mask)[x & mask];
  }

  float wobble(float sum, double roughness) {
    return sum / 4.0F + static_cast<float>(roughness * stream_.uniform(-roughness, roughness));
  }

  Plane field_;
  Stream& stream_;
};

}  // namespace

Plane plasma(std::int64_t side, double decay, Stream& stream) {
  DiamondSquare fractal(side, stream);
  double roughness = 100.0;
  for (std::int64_t step = side; step >= 2; step /= 2) {
    fractal.squares(step, roughness);
    fractal.diamonds(step, roughness);
    roughness /= decay;
  }
  Plane field = fractal.take();
  const auto [low, high] = std::minmax_element(field.values.begin(), field.values.end());
  const float lowest = *low;
  const float range = *high - lowest;
  for (float& value : field.values) {
    value = range > 0.0F ? (value - lowest) / range : 0.0F;
  }
  return field;
}

std::int64_t plasma_side(std::int64_t length) {
  std::int64_t side = 1;
  while (side < length) {
    side *= 2;
  }
  return side;
}

}  // namespace winnow::distortion
