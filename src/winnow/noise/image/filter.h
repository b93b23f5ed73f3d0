// Linear filters on one channel: borders, the Gaussian filter, sparse correlation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/noise/image/distortion_image.h"

namespace winnow::distortion {

// What lies outside the picture. spec: input-noise 3, conventions.
enum class Border {
  edge,         // a a | a b c | c c
  reflect_101,  // c b | a b c | b a  (the edge is not repeated)
  reflect,      // b a | a b c | c b  (the edge is repeated)
};

// The index inside 0..length-1 that stands for `index`; any distance outside is allowed.
std::int64_t border_index(std::int64_t index, std::int64_t length, Border border);

// The weights of a Gaussian filter over -r..r, r = int(truncate * sigma + 0.5), summing to 1.
// A radius of 0 (also sigma 0) gives the single weight 1.
std::vector<float> gaussian_kernel(double sigma, double truncate = 4.0);

// The separable Gaussian filter GF(sigma, truncate, border).
Plane gaussian_filter(const Plane& plane, double sigma, double truncate = 4.0,
                      Border border = Border::edge);

// One weight of a correlation: it multiplies the input at (y + dy, x + dx).
struct Tap {
  std::int64_t dy = 0;
  std::int64_t dx = 0;
  float weight = 0.0F;
};

// out(y, x) = sum of weight * in(y + dy, x + dx).
Plane correlate(const Plane& plane, std::span<const Tap> taps, Border border);

// Mean over 3x3, border reflect_101, not rounded.
Plane mean_3x3(const Plane& plane);

// The disc of a defocused lens on the grid -8..8 squared, row-major 17x17, summing to 1.
// spec: input-noise D6
std::vector<double> defocus_kernel(int severity);

// The weights of defocus_kernel that matter (above 1e-9) as taps.
const std::vector<Tap>& defocus_taps(int severity);

}  // namespace winnow::distortion
