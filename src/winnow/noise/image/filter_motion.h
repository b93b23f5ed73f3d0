// The blur of a moving camera: a one-sided Gaussian along a line. spec: input-noise D8
#pragma once

#include <cstdint>
#include <vector>

#include "winnow/noise/image/filter.h"

namespace winnow::distortion {

// exp(-i^2 / 2 sigma^2) for i = 0 .. 2 ceil(radius), summing to 1.
std::vector<double> motion_kernel(double radius, double sigma);

// Where weight i is taken from: dx = ceil(i cos a - 1/2), dy = ceil(i sin a - 1/2).
struct MotionOffset {
  std::int64_t dx = 0;
  std::int64_t dy = 0;

  friend bool operator==(const MotionOffset&, const MotionOffset&) = default;
};
MotionOffset motion_offset(std::int64_t i, double angle_degrees);

// Kernel and offsets together, ready for correlate() with Border::edge.
std::vector<Tap> motion_taps(double radius, double sigma, double angle_degrees);

}  // namespace winnow::distortion
