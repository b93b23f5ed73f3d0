// Distortions of colour and light: brightness, contrast, saturation.
#pragma once

#include "winnow/noise/image/distortion_image.h"

namespace winnow::distortion {

struct Hsv {
  float h = 0.0F;  // [0,1), 0 = red; 0 by definition when the colour is grey
  float s = 0.0F;
  float v = 0.0F;
};

Hsv to_hsv(const Rgb& colour);
Rgb to_rgb(const Hsv& colour);

// The colour after the distortion, in [0,1]. spec: input-noise D13, D15
Rgb brighten(const Rgb& colour, int severity);
Rgb saturate(const Rgb& colour, int severity);

// Grey images only become lighter.
void brightness(const ImageView& image, int severity);

// Towards the mean of each channel. spec: input-noise D14
void contrast(const ImageView& image, int severity);

// Grey images have saturation 0: severities 1 to 3 leave them as they are; 4 and 5 add saturation,
// which tints grey with red (its hue is 0), and the luma of the tint, .9299 and .8598 of the grey
// value, is written back.
void saturate(const ImageView& image, int severity);

}  // namespace winnow::distortion
