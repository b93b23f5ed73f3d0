#include "winnow/noise/image/distortion_geometry.h"

#include <algorithm>
#include <span>
#include <vector>

#include "winnow/noise/image/filter.h"
#include "winnow/noise/image/filter_resize.h"

namespace winnow::distortion {
namespace {

// The map from the distorted picture back to the original, for jittered corner points.
Affine random_inverse_affine(const ImageView& image, double jitter, Stream& stream) {
  const std::int64_t middle_x = image.width / 2;
  const std::int64_t middle_y = image.height / 2;
  const auto centre_x = static_cast<double>(middle_x);
  const auto centre_y = static_cast<double>(middle_y);
  const auto reach =
      static_cast<double>(std::max<std::int64_t>(std::min(image.height, image.width) / 3, 1));
  const std::array<Point, 3> old_points{{{centre_x + reach, centre_y + reach},
                                         {centre_x + reach, centre_y - reach},
                                         {centre_x - reach, centre_y - reach}}};
  std::array<Point, 3> new_points = old_points;
  for (Point& point : new_points) {
    point.x += stream.uniform(-jitter, jitter);
    point.y += stream.uniform(-jitter, jitter);
  }
  return affine_through(new_points, old_points);
}

Plane random_displacement(const ImageView& image, const ElasticScale& scale, Stream& stream) {
  Plane field(image.height, image.width);
  for (float& value : field.values) {
    value = static_cast<float>(stream.uniform(-1.0, 1.0));
  }
  field = gaussian_filter(field, scale.sigma, 3.0, Border::reflect);
  for (float& value : field.values) {
    value *= static_cast<float>(scale.alpha);
  }
  return field;
}

Plane warp(const Plane& plane, const Affine& back) {
  Plane out(plane.height, plane.width);
  for (std::int64_t y = 0; y < plane.height; ++y) {
    for (std::int64_t x = 0; x < plane.width; ++x) {
      const Point from = back({static_cast<double>(x), static_cast<double>(y)});
      out.row(y)[x] = sample_bilinear(plane, static_cast<float>(from.y), static_cast<float>(from.x),
                                      Border::reflect_101);
    }
  }
  return out;
}

Plane displace(const Plane& plane, const Plane& dx, const Plane& dy) {
  Plane out(plane.height, plane.width);
  for (std::int64_t y = 0; y < plane.height; ++y) {
    for (std::int64_t x = 0; x < plane.width; ++x) {
      out.row(y)[x] = sample_bilinear(plane, static_cast<float>(y) + dy.row(y)[x],
                                      static_cast<float>(x) + dx.row(y)[x], Border::reflect);
    }
  }
  return out;
}

}  // namespace

Affine affine_through(const std::array<Point, 3>& from, const std::array<Point, 3>& to) {
  // Relative to the last point the map is linear: solve it for the other two by Cramer's rule.
  const double ax = from[0].x - from[2].x;
  const double ay = from[0].y - from[2].y;
  const double bx = from[1].x - from[2].x;
  const double by = from[1].y - from[2].y;
  const double determinant = ax * by - bx * ay;
  const auto solve = [&](double a, double b, double& per_x, double& per_y) {
    per_x = (a * by - b * ay) / determinant;
    per_y = (ax * b - bx * a) / determinant;
  };
  Affine map;
  solve(to[0].x - to[2].x, to[1].x - to[2].x, map.xx, map.xy);
  solve(to[0].y - to[2].y, to[1].y - to[2].y, map.yx, map.yy);
  map.x0 = to[2].x - map.xx * from[2].x - map.xy * from[2].y;
  map.y0 = to[2].y - map.yx * from[2].x - map.yy * from[2].y;
  return map;
}

ElasticScale elastic_scale(std::int64_t height, int severity) {
  constexpr PerSeverity<ElasticScale> kScale{
      {{0, 0, .08}, {.05, .2, .07}, {.08, .06, .06}, {.1, .04, .05}, {.1, .03, .03}}};
  const ElasticScale& unit = at_severity(kScale, severity);
  const auto size = static_cast<double>(height);
  return {unit.alpha * size, unit.sigma * size, unit.jitter * size};
}

void elastic(const ImageView& image, int severity, Stream& stream) {
  const ElasticScale scale = elastic_scale(image.height, severity);
  const Affine back = random_inverse_affine(image, scale.jitter, stream);
  const Plane dx = random_displacement(image, scale, stream);
  const Plane dy = random_displacement(image, scale, stream);
  for (std::int64_t c = 0; c < image.channels; ++c) {
    store_plane(displace(warp(load_plane(image, c), back), dx, dy), image, c);
  }
}

std::int64_t pixelated_length(std::int64_t length, int severity) {
  constexpr PerSeverity<double> kShare{.95, .9, .85, .75, .65};
  const double reduced = static_cast<double>(length) * at_severity(kShare, severity);
  return std::max<std::int64_t>(static_cast<std::int64_t>(reduced), 1);
}

void pixelate(const ImageView& image, int severity) {
  const std::int64_t height = pixelated_length(image.height, severity);
  const std::int64_t width = pixelated_length(image.width, severity);
  for (std::int64_t c = 0; c < image.channels; ++c) {
    const std::span<std::uint8_t> bytes(image.channel(c), static_cast<std::size_t>(image.area()));
    const std::vector<std::uint8_t> small =
        resize_box(bytes, image.height, image.width, height, width);
    const std::vector<std::uint8_t> large =
        resize_box(small, height, width, image.height, image.width);
    std::copy(large.begin(), large.end(), bytes.begin());
  }
}

}  // namespace winnow::distortion
