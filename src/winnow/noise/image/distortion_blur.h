// Blurs: Gaussian, defocus, glass, motion, zoom. Every channel is blurred by itself.
#pragma once

#include "winnow/base/random.h"
#include "winnow/noise/image/distortion_image.h"

namespace winnow::distortion {

void gaussian_blur(const ImageView& image, int severity);  // spec: input-noise D5
void defocus_blur(const ImageView& image, int severity);   // spec: input-noise D6

// The exchange of neighbouring pixels in glass_blur. The benchmark's own code means to swap but,
// its two sides being views of one array, copies; published results therefore stand on the copy.
enum class GlassExchange { literal_copy, true_swap };

void glass_blur(const ImageView& image, int severity, Stream& stream,
                GlassExchange exchange = GlassExchange::literal_copy);  // spec: input-noise D7, A15

void motion_blur(const ImageView& image, int severity, Stream& stream);  // spec: input-noise D8
void zoom_blur(const ImageView& image, int severity);                    // spec: input-noise D9

}  // namespace winnow::distortion
