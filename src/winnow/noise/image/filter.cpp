#include "winnow/noise/image/filter.h"

#include <algorithm>
#include <cmath>

#include "winnow/base/math.h"

namespace winnow::distortion {
namespace {

struct Margins {
  std::int64_t top = 0;
  std::int64_t bottom = 0;
  std::int64_t left = 0;
  std::int64_t right = 0;
};

Plane pad(const Plane& plane, const Margins& margins, Border border) {
  Plane out(plane.height + margins.top + margins.bottom,
            plane.width + margins.left + margins.right);
  for (std::int64_t y = 0; y < out.height; ++y) {
    const float* from = plane.row(border_index(y - margins.top, plane.height, border));
    float* to = out.row(y);
    for (std::int64_t x = 0; x < margins.left; ++x) {
      to[x] = from[border_index(x - margins.left, plane.width, border)];
    }
    std::copy(from, from + plane.width, to + margins.left);
    for (std::int64_t x = margins.left + plane.width; x < out.width; ++x) {
      to[x] = from[border_index(x - margins.left, plane.width, border)];
    }
  }
  return out;
}

void add_scaled(float* to, const float* from, float weight, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] += weight * from[i];
  }
}

// exp(-i^2 / 2 sigma^2) for i = -1, 0, 1, summing to 1.
std::array<double, 3> gaussian_3(double sigma) {
  const double side = math::exp(-1.0 / (2.0 * sigma * sigma));
  const double sum = 1.0 + 2.0 * side;
  return {side / sum, 1.0 / sum, side / sum};
}

constexpr int kDefocusReach = 8;
constexpr int kDefocusSide = 2 * kDefocusReach + 1;

std::size_t defocus_cell(std::int64_t y, std::int64_t x) {
  return static_cast<std::size_t>((y + kDefocusReach) * kDefocusSide + x + kDefocusReach);
}

std::vector<double> disc(double radius) {
  std::vector<double> cells(std::size_t{kDefocusSide} * kDefocusSide, 0.0);
  double count = 0.0;
  for (int y = -kDefocusReach; y <= kDefocusReach; ++y) {
    for (int x = -kDefocusReach; x <= kDefocusReach; ++x) {
      if (static_cast<double>(x * x + y * y) <= radius * radius) {
        cells[defocus_cell(y, x)] = 1.0;
        count += 1.0;
      }
    }
  }
  for (double& cell : cells) {
    cell /= count;
  }
  return cells;
}

std::vector<Tap> taps_of(const std::vector<double>& kernel) {
  std::vector<Tap> taps;
  for (int y = -kDefocusReach; y <= kDefocusReach; ++y) {
    for (int x = -kDefocusReach; x <= kDefocusReach; ++x) {
      const double weight = kernel[defocus_cell(y, x)];
      if (weight > 1e-9) {
        taps.push_back({y, x, static_cast<float>(weight)});
      }
    }
  }
  return taps;
}

}  // namespace

std::int64_t border_index(std::int64_t index, std::int64_t length, Border border) {
  if (index >= 0 && index < length) {
    return index;
  }
  if (border == Border::edge || length == 1) {
    return std::clamp<std::int64_t>(index, 0, length - 1);
  }
  // Both reflections repeat with a period; inside one period the second half runs backwards.
  const std::int64_t period = border == Border::reflect ? 2 * length : 2 * length - 2;
  const std::int64_t place = ((index % period) + period) % period;
  if (place < length) {
    return place;
  }
  return border == Border::reflect ? period - 1 - place : period - place;
}

std::vector<float> gaussian_kernel(double sigma, double truncate) {
  const auto radius = static_cast<std::int64_t>(std::floor(truncate * sigma + 0.5));
  if (radius == 0) {
    return {1.0F};
  }
  std::vector<double> weights;
  double sum = 0.0;
  for (std::int64_t i = -radius; i <= radius; ++i) {
    weights.push_back(math::exp(-static_cast<double>(i * i) / (2.0 * sigma * sigma)));
    sum += weights.back();
  }
  std::vector<float> kernel;
  kernel.reserve(weights.size());
  for (const double weight : weights) {
    kernel.push_back(static_cast<float>(weight / sum));
  }
  return kernel;
}

Plane gaussian_filter(const Plane& plane, double sigma, double truncate, Border border) {
  const std::vector<float> kernel = gaussian_kernel(sigma, truncate);
  const auto size = std::ssize(kernel);
  const std::int64_t radius = size / 2;
  if (radius == 0) {
    return plane;
  }
  const Plane padded = pad(plane, {0, 0, radius, radius}, border);
  Plane across(plane.height, plane.width);
  for (std::int64_t y = 0; y < plane.height; ++y) {
    for (std::int64_t i = 0; i < size; ++i) {
      add_scaled(across.row(y), padded.row(y) + i, kernel[static_cast<std::size_t>(i)],
                 plane.width);
    }
  }
  Plane out(plane.height, plane.width);
  for (std::int64_t y = 0; y < plane.height; ++y) {
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t from = border_index(y + i - radius, plane.height, border);
      add_scaled(out.row(y), across.row(from), kernel[static_cast<std::size_t>(i)], plane.width);
    }
  }
  return out;
}

Plane correlate(const Plane& plane, std::span<const Tap> taps, Border border) {
  Margins margins;
  for (const Tap& tap : taps) {
    margins.top = std::max(margins.top, -tap.dy);
    margins.bottom = std::max(margins.bottom, tap.dy);
    margins.left = std::max(margins.left, -tap.dx);
    margins.right = std::max(margins.right, tap.dx);
  }
  const Plane padded = pad(plane, margins, border);
  Plane out(plane.height, plane.width);
  for (std::int64_t y = 0; y < plane.height; ++y) {
    for (const Tap& tap : taps) {
      add_scaled(out.row(y), padded.row(y + tap.dy + margins.top) + tap.dx + margins.left,
                 tap.weight, plane.width);
    }
  }
  return out;
}

Plane mean_3x3(const Plane& plane) {
  std::array<Tap, 9> taps;
  for (std::int64_t i = 0; i < 9; ++i) {
    taps[static_cast<std::size_t>(i)] = {i / 3 - 1, i % 3 - 1, 1.0F};
  }
  Plane out = correlate(plane, taps, Border::reflect_101);
  for (float& value : out.values) {
    value /= 9.0F;
  }
  return out;
}

std::vector<double> defocus_kernel(int severity) {
  struct Lens {
    double radius;
    double alias;
  };
  constexpr PerSeverity<Lens> kLenses{{{.3, .4}, {.4, .5}, {.5, .6}, {1.0, .2}, {1.5, .1}}};
  const Lens lens = at_severity(kLenses, severity);
  const std::vector<double> sharp = disc(lens.radius);
  const std::array<double, 3> soft = gaussian_3(lens.alias);
  std::vector<double> kernel(sharp.size(), 0.0);
  for (int y = -kDefocusReach + 1; y < kDefocusReach; ++y) {
    for (int x = -kDefocusReach + 1; x < kDefocusReach; ++x) {
      double sum = 0.0;
      for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 3; ++j) {
          sum += soft[i] * soft[j] * sharp[defocus_cell(y - 1, x - 1) + i * kDefocusSide + j];
        }
      }
      kernel[defocus_cell(y, x)] = sum;
    }
  }
  return kernel;
}

const std::vector<Tap>& defocus_taps(int severity) {
  static const PerSeverity<std::vector<Tap>> taps{
      taps_of(defocus_kernel(1)), taps_of(defocus_kernel(2)), taps_of(defocus_kernel(3)),
      taps_of(defocus_kernel(4)), taps_of(defocus_kernel(5))};
  return at_severity(taps, severity);
}

}  // namespace winnow::distortion
