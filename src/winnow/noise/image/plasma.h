// The plasma map of fog: a fractal height field by periodic diamond-square. spec: input-noise D12
#pragma once

#include <cstdint>

#include "winnow/base/random.h"
#include "winnow/noise/image/distortion_image.h"

namespace winnow::distortion {

// A height field of side x side, side a power of two, that wraps round at its edges; its values run
// exactly from 0 to 1. `decay` > 1 divides the roughness at every halving: smaller is rougher.
Plane plasma(std::int64_t side, double decay, Stream& stream);

// The smallest power of two that is at least `length`.
std::int64_t plasma_side(std::int64_t length);

}  // namespace winnow::distortion
