// Weather: snow and fog.
#pragma once

#include "winnow/base/random.h"
#include "winnow/noise/image/distortion_image.h"

namespace winnow::distortion {

// The whitened colour that the flakes are added to: mix * x + (1 - mix) * max(x, 1.5 grey + .5).
Rgb snow_base(const Rgb& colour, float mix);

// The blurred flakes, in [0,1], already with their image turned by 180 degrees added.
Plane snow_flakes(std::int64_t height, std::int64_t width, int severity, Stream& stream);

void snow(const ImageView& image, int severity, Stream& stream);  // spec: input-noise D10

// out = (x + c P) m / (m + c) with the plasma map P, shared by the channels, and m the largest
// value of the image. spec: input-noise D12
void fog(const ImageView& image, int severity, Stream& stream);

}  // namespace winnow::distortion
