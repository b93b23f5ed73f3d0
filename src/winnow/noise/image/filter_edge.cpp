#include "winnow/noise/image/filter_edge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace winnow::distortion {
namespace {

struct Gradient {
  int x = 0;
  int y = 0;
  int magnitude() const { return std::abs(x) + std::abs(y); }
};

// Gradients with a margin of one pixel of zeros all round, so that neighbours always exist.
class GradientField {
 public:
  explicit GradientField(const GreyImage& image)
      : stride_(image.width + 2),
        gradients_(static_cast<std::size_t>((image.height + 2) * stride_)) {
    for (std::int64_t y = 0; y < image.height; ++y) {
      for (std::int64_t x = 0; x < image.width; ++x) {
        gradients_[place(y, x)] = sobel(image, y, x);
      }
    }
  }

  const Gradient& at(std::int64_t y, std::int64_t x) const { return gradients_[place(y, x)]; }
  int magnitude(std::int64_t y, std::int64_t x) const { return at(y, x).magnitude(); }

 private:
  std::size_t place(std::int64_t y, std::int64_t x) const {
    return static_cast<std::size_t>((y + 1) * stride_ + x + 1);
  }

  static Gradient sobel(const GreyImage& image, std::int64_t y, std::int64_t x) {
    const std::int64_t left = std::max<std::int64_t>(x - 1, 0);
    const std::int64_t right = std::min(x + 1, image.width - 1);
    const std::uint8_t* above =
        image.values.data() + std::max<std::int64_t>(y - 1, 0) * image.width;
    const std::uint8_t* level = image.values.data() + y * image.width;
    const std::uint8_t* below =
        image.values.data() + std::min(y + 1, image.height - 1) * image.width;
    return {
        above[right] - above[left] + 2 * (level[right] - level[left]) + below[right] - below[left],
        below[left] - above[left] + 2 * (below[x] - above[x]) + below[right] - above[right]};
  }

  std::int64_t stride_;
  std::vector<Gradient> gradients_;
};

// Is the pixel a maximum across its gradient? Sectors split at 22.5 and 67.5 degrees.
bool is_ridge(const GradientField& field, std::int64_t y, std::int64_t x) {
  constexpr double kTan22 = 0.41421356237309503;
  constexpr double kTan67 = 2.414213562373095;
  const Gradient& here = field.at(y, x);
  const int magnitude = here.magnitude();
  const double across = std::abs(here.x);
  const double down = std::abs(here.y);
  if (down < kTan22 * across) {
    return magnitude > field.magnitude(y, x - 1) && magnitude >= field.magnitude(y, x + 1);
  }
  if (down > kTan67 * across) {
    return magnitude > field.magnitude(y - 1, x) && magnitude >= field.magnitude(y + 1, x);
  }
  const std::int64_t side = (here.x < 0) != (here.y < 0) ? -1 : 1;
  return magnitude > field.magnitude(y - 1, x - side) &&
         magnitude > field.magnitude(y + 1, x + side);
}

constexpr std::uint8_t kWeak = 1;
constexpr std::uint8_t kEdge = 255;

// Lets every strong edge pixel pull in the weak ones it touches, then drops the rest.
void follow_edges(GreyImage& marks, std::vector<std::int64_t> strong) {
  while (!strong.empty()) {
    const std::int64_t y = strong.back() / marks.width;
    const std::int64_t x = strong.back() % marks.width;
    strong.pop_back();
    for (std::int64_t ny = std::max<std::int64_t>(y - 1, 0);
         ny <= std::min(y + 1, marks.height - 1); ++ny) {
      for (std::int64_t nx = std::max<std::int64_t>(x - 1, 0);
           nx <= std::min(x + 1, marks.width - 1); ++nx) {
        std::uint8_t& mark = marks.values[static_cast<std::size_t>(ny * marks.width + nx)];
        if (mark == kWeak) {
          mark = kEdge;
          strong.push_back(ny * marks.width + nx);
        }
      }
    }
  }
  for (std::uint8_t& mark : marks.values) {
    mark = mark == kEdge ? kEdge : std::uint8_t{0};
  }
}

struct ChamferStep {
  std::int64_t dy;
  std::int64_t dx;
  float cost;
};

// The neighbours already visited when going down and right; the way back mirrors them.
constexpr std::array<ChamferStep, 8> kChamferSteps{{{0, -1, 1.0F},
                                                    {-1, 0, 1.0F},
                                                    {-1, -1, 1.4F},
                                                    {-1, 1, 1.4F},
                                                    {-1, -2, 2.1969F},
                                                    {-1, 2, 2.1969F},
                                                    {-2, -1, 2.1969F},
                                                    {-2, 1, 2.1969F}}};

// `direction` 1 looks at the visited neighbours above, -1 at their mirror images below.
void relax(Plane& distance, std::int64_t y, std::int64_t x, std::int64_t direction) {
  float best = distance.row(y)[x];
  for (const ChamferStep& step : kChamferSteps) {
    const std::int64_t ny = y + direction * step.dy;
    const std::int64_t nx = x + direction * step.dx;
    if (ny >= 0 && ny < distance.height && nx >= 0 && nx < distance.width) {
      best = std::min(best, distance.row(ny)[nx] + step.cost);
    }
  }
  distance.row(y)[x] = best;
}

}  // namespace

GreyImage canny(const GreyImage& image, int low, int high) {
  const GradientField field(image);
  GreyImage marks(image.height, image.width);
  std::vector<std::int64_t> strong;
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      const int magnitude = field.magnitude(y, x);
      if (magnitude <= low || !is_ridge(field, y, x)) {
        continue;
      }
      const std::int64_t place = y * image.width + x;
      marks.values[static_cast<std::size_t>(place)] = magnitude > high ? kEdge : kWeak;
      if (magnitude > high) {
        strong.push_back(place);
      }
    }
  }
  follow_edges(marks, std::move(strong));
  return marks;
}

Plane chamfer_distance(const GreyImage& edges) {
  constexpr float kFar = 1e6F;
  Plane distance(edges.height, edges.width);
  for (std::size_t i = 0; i < edges.values.size(); ++i) {
    distance.values[i] = edges.values[i] != 0 ? 0.0F : kFar;
  }
  for (std::int64_t y = 0; y < distance.height; ++y) {
    for (std::int64_t x = 0; x < distance.width; ++x) {
      relax(distance, y, x, 1);
    }
  }
  for (std::int64_t y = distance.height - 1; y >= 0; --y) {
    for (std::int64_t x = distance.width - 1; x >= 0; --x) {
      relax(distance, y, x, -1);
    }
  }
  return distance;
}

void equalise(std::span<std::uint8_t> values) {
  std::array<std::int64_t, 256> histogram{};
  for (const std::uint8_t value : values) {
    ++histogram[value];
  }
  std::size_t first = 0;
  while (first < histogram.size() && histogram[first] == 0) {
    ++first;
  }
  if (first == histogram.size() || histogram[first] == std::ssize(values)) {
    return;
  }
  const auto others = static_cast<double>(std::ssize(values) - histogram[first]);
  std::array<std::uint8_t, 256> table{};
  std::int64_t sum = 0;
  for (std::size_t level = first + 1; level < histogram.size(); ++level) {
    sum += histogram[level];
    table[level] = round_to_byte(255.0 * static_cast<double>(sum) / others);
  }
  for (std::uint8_t& value : values) {
    value = table[value];
  }
}

}  // namespace winnow::distortion
