// Distortions that move pixels: elastic deformation and pixelation.
#pragma once

#include <array>
#include <cstdint>

#include "winnow/base/random.h"
#include "winnow/noise/image/distortion_image.h"

namespace winnow::distortion {

struct Point {
  double x = 0.0;
  double y = 0.0;
};

// x' = xx x + xy y + x0, y' = yx x + yy y + y0.
struct Affine {
  double xx = 1.0;
  double xy = 0.0;
  double x0 = 0.0;
  double yx = 0.0;
  double yy = 1.0;
  double y0 = 0.0;

  Point operator()(const Point& p) const {
    return {xx * p.x + xy * p.y + x0, yx * p.x + yy * p.y + y0};
  }
};

// The map that sends each of three points, not on one line, to its partner.
Affine affine_through(const std::array<Point, 3>& from, const std::array<Point, 3>& to);

// Strength of the displacement, width of its smoothing and jitter of the corners, in pixels, for an
// image of this height. spec: input-noise D16
struct ElasticScale {
  double alpha = 0.0;
  double sigma = 0.0;
  double jitter = 0.0;
};
ElasticScale elastic_scale(std::int64_t height, int severity);

// A random affine map, then a smooth random displacement. The corners that the map moves lie a
// third of the shorter side from the centre.
void elastic(const ImageView& image, int severity, Stream& stream);  // spec: input-noise D16

// The side that `length` shrinks to before it is enlarged again, at least 1.
std::int64_t pixelated_length(std::int64_t length, int severity);
void pixelate(const ImageView& image, int severity);  // spec: input-noise D17

}  // namespace winnow::distortion
