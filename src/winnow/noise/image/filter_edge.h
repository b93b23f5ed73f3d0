// Edges of a grey picture and what spatter makes of them: Canny, chamfer distance, equalisation.
// spec: input-noise D19
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/noise/image/distortion_image.h"

namespace winnow::distortion {

// A grey picture of bytes.
struct GreyImage {
  GreyImage(std::int64_t rows, std::int64_t columns)
      : height(rows), width(columns), values(static_cast<std::size_t>(rows * columns)) {}

  std::int64_t height;
  std::int64_t width;
  std::vector<std::uint8_t> values;
};

// 255 at edge pixels, 0 elsewhere. 3x3 Sobel with repeated edges, magnitude |gx| + |gy|; a pixel is
// kept when above `low` and a local maximum across its gradient, is strong above `high`, and a weak
// one survives only when a chain of neighbours (8) leads to a strong one.
GreyImage canny(const GreyImage& image, int low, int high);

// Distance of every pixel to the nearest non-zero pixel of `edges`, by two passes of the 5x5
// chamfer metric (1, 1.4, 2.1969). Without any edge every distance is at least 1e6.
Plane chamfer_distance(const GreyImage& edges);

// Histogram equalisation in place; a constant picture stays as it is.
void equalise(std::span<std::uint8_t> values);

}  // namespace winnow::distortion
