// Spatter: drops of water (severities 1 to 3) or mud (4 and 5) on the lens. spec: input-noise D19
#pragma once

#include "winnow/base/random.h"
#include "winnow/noise/image/distortion_image.h"

namespace winnow::distortion {

// The random layer of liquid, smoothed, with everything below the severity's threshold set to 0.
Plane spatter_liquid(std::int64_t height, std::int64_t width, int severity, Stream& stream);

// How strongly water shines at each pixel: 0..strength, its maximum exactly `strength`, or all 0
// when the liquid casts no light at all.
Plane water_light(const Plane& liquid, float strength);

// How much of each pixel mud covers: 0 or .8 .. 1.
Plane mud_cover(const Plane& liquid, float threshold, double sigma);

void spatter(const ImageView& image, int severity, Stream& stream);

}  // namespace winnow::distortion
