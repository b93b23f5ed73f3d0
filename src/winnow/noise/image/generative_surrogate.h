// Pictures from an untrained generator: the honest stand-in for the generative patches of the FedNS
// paper, whose images and weights are not available. It makes no claim to be any published
// generator. spec: input-noise 1.8, A12
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "winnow/base/random.h"
#include "winnow/noise/image/distortion_image.h"

namespace winnow {

// Does every sample get a picture of its own, or all the same one (as the released FedNS code,
// which re-seeds before each draw, in effect does)?
enum class GenMode { per_sample, fixed };

// "per_sample" | "fixed"; anything else is Error(experiment).
GenMode parse_gen_mode(std::string_view text);

// A style-modulated upsampling network with random weights, 4x4 -> 32x32, 32 channels. The weights
// depend on the seed alone. Immutable after construction: any number of threads may paint at once.
class GenerativeSurrogate {
 public:
  explicit GenerativeSurrogate(std::uint64_t seed);

  // Replaces the image by a new picture. Sizes other than 32x32 are resized (bilinearly) before the
  // brightness is normalised; a grey image gets the red channel.
  void paint(const ImageView& image, Stream& stream) const;

  // Replaces the image by the one picture of GenMode::fixed.
  void paint_fixed(const ImageView& image) const;

 private:
  static constexpr std::int64_t kChannels = 32;
  static constexpr std::int64_t kStyle = 64;
  static constexpr std::size_t kStages = 4;

  struct Stage {
    std::vector<float> style;   // [kChannels][kStyle]
    std::vector<float> kernel;  // [3][3][in][out], so that the outputs of one input lie together
    std::vector<float> energy;  // [out][in], the sum of squares over the 3x3 weights
  };

  // A feature map, all channels of a pixel together.
  struct Features {
    std::int64_t side = 0;
    std::vector<float> values;
  };

  std::vector<float> draw_style(Stream& stream) const;
  Features run_stage(const Stage& stage, Features features, const std::vector<float>& style,
                     Stream& stream) const;
  std::vector<distortion::Plane> colours(const Features& features, std::int64_t count) const;

  std::uint64_t seed_;
  std::vector<float> start_;                   // [4][4][kChannels]
  std::array<std::vector<float>, 2> mapping_;  // [kStyle][kStyle]
  std::array<Stage, kStages> stages_;
  std::vector<float> colour_;  // [3][kChannels]
};

}  // namespace winnow
