// Noise that treats every byte by itself, and the patches that replace a whole image.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "winnow/base/random.h"
#include "winnow/noise/image/distortion_image.h"

namespace winnow::distortion {

// The probability of every output byte.
using ByteDistribution = std::array<double, 256>;

// What each noise makes of one input level, truncation and clipping included.
ByteDistribution gaussian_noise_of(int level, int severity);  // spec: input-noise D1
ByteDistribution shot_noise_of(int level, int severity);      // spec: input-noise D2
ByteDistribution impulse_noise_of(int level, int severity);   // spec: input-noise D3
ByteDistribution speckle_noise_of(int level, int severity);   // spec: input-noise D4
// Clipped standard normal times 255, truncated. spec: input-noise 1.8
ByteDistribution gaussian_patch_distribution();

// Draws from one distribution with a single 32-bit number (alias method): 8 bits choose a slot, 24
// bits decide between the slot and its partner. Probabilities are exact to 2^-32.
class AliasRow {
 public:
  explicit AliasRow(const ByteDistribution& distribution);

  std::uint8_t draw(std::uint32_t random) const {
    const std::uint32_t cell = cells_[random & 0xFFU];
    return static_cast<std::uint8_t>((random >> 8) < (cell >> 8) ? random : cell);
  }

 private:
  std::array<std::uint32_t, 256> cells_;  // threshold in the upper 24 bits, partner in the lower 8
};

// A memoryless noise: one row per input byte. Far faster than drawing normals and Poissons, and the
// same in distribution.
class ByteNoise {
 public:
  explicit ByteNoise(const std::function<ByteDistribution(int level)>& distribution_of);
  void apply(const ImageView& image, Stream& stream) const;

 private:
  std::vector<AliasRow> rows_;
};

void gaussian_noise(const ImageView& image, int severity, Stream& stream);
void shot_noise(const ImageView& image, int severity, Stream& stream);
void impulse_noise(const ImageView& image, int severity, Stream& stream);
void speckle_noise(const ImageView& image, int severity, Stream& stream);

void black(const ImageView& image);
void gaussian_patch(const ImageView& image, Stream& stream);

}  // namespace winnow::distortion
