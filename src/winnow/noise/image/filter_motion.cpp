#include "winnow/noise/image/filter_motion.h"

#include <cmath>
#include <numbers>

#include "winnow/base/math.h"

namespace winnow::distortion {

std::vector<double> motion_kernel(double radius, double sigma) {
  const auto width = 2 * static_cast<std::int64_t>(std::ceil(radius)) + 1;
  std::vector<double> kernel;
  double sum = 0.0;
  for (std::int64_t i = 0; i < width; ++i) {
    kernel.push_back(math::exp(-static_cast<double>(i * i) / (2.0 * sigma * sigma)));
    sum += kernel.back();
  }
  for (double& weight : kernel) {
    weight /= sum;
  }
  return kernel;
}

MotionOffset motion_offset(std::int64_t i, double angle_degrees) {
  const double angle = angle_degrees * std::numbers::pi / 180.0;
  const auto along = static_cast<double>(i);
  return {static_cast<std::int64_t>(std::ceil(along * math::cos(angle) - 0.5)),
          static_cast<std::int64_t>(std::ceil(along * math::sin(angle) - 0.5))};
}

std::vector<Tap> motion_taps(double radius, double sigma, double angle_degrees) {
  const std::vector<double> kernel = motion_kernel(radius, sigma);
  std::vector<Tap> taps;
  taps.reserve(kernel.size());
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const MotionOffset offset = motion_offset(static_cast<std::int64_t>(i), angle_degrees);
    taps.push_back({offset.dy, offset.dx, static_cast<float>(kernel[i])});
  }
  return taps;
}

}  // namespace winnow::distortion
