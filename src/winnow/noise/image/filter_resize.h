// Resampling: the centred zoom, bilinear sampling and resizing, and the box filter on bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/noise/image/filter.h"

namespace winnow::distortion {

// One axis of the centred zoom Z(x, factor): `crop` samples from `top` on are stretched to `size`
// with corners aligned, and `length` of those are kept from `cut` on. spec: input-noise D9
struct ZoomGeometry {
  std::int64_t crop = 0;
  std::int64_t top = 0;
  std::int64_t size = 0;
  std::int64_t cut = 0;

  friend bool operator==(const ZoomGeometry&, const ZoomGeometry&) = default;
};
ZoomGeometry zoom_geometry(std::int64_t length, double factor);

// Z(x, factor): the middle of the picture, enlarged to the size of the picture; factor >= 1.
Plane zoom(const Plane& plane, double factor);

// The zoom factors 1.00, 1.01, ... that zoom_blur averages at a severity.
std::vector<double> zoom_factors(int severity);

// The value at a real position, bilinear.
float sample_bilinear(const Plane& plane, float y, float x, Border border);

// Bilinear resize with half-pixel centres and clamped edges.
Plane resize_bilinear(const Plane& plane, std::int64_t height, std::int64_t width);

// Box-filter resize of one channel of bytes, across first, then down, floor(v + 1/2) after each
// pass. spec: input-noise D17
std::vector<std::uint8_t> resize_box(std::span<const std::uint8_t> bytes, std::int64_t height,
                                     std::int64_t width, std::int64_t new_height,
                                     std::int64_t new_width);

}  // namespace winnow::distortion
