// What baseline JPEG with 4:2:0 colour loses, without the lossless coding. spec: input-noise D18
#pragma once

#include <array>
#include <span>

#include "winnow/noise/image/distortion_image.h"

namespace winnow::distortion {

using JpegTable = std::array<int, 64>;  // row-major 8x8

JpegTable jpeg_luma_table(int quality);    // quality 1..100
JpegTable jpeg_chroma_table(int quality);  // quality 1..100

// Sends one 8x8 block of levels through DCT, quantisation and back; the result is rounded and
// clamped to 0..255.
void jpeg_block(std::span<double, 64> levels, const JpegTable& table);

// Replaces the image by what a JPEG file of this quality would give back. Grey images have luma
// only.
void jpeg_round_trip(const ImageView& image, int quality);

}  // namespace winnow::distortion
