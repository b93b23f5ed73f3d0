// Input noise: a block of an experiment that distorts the images of some clients, once, before any
// training. Labels stay. spec: input-noise 1.8
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/data/partition.h"
#include "winnow/noise/image/distortion.h"
#include "winnow/noise/label/label_noise.h"
#include "winnow/noise/ledger.h"
#include "winnow/noise/scope.h"

namespace winnow {

struct InputNoiseOptions {
  std::string set = "main";  // one of the active sets, unless `kinds` names distortions
  std::vector<std::string> kinds;
  std::string severity = "high";  // low, medium, high or 1 to 5
  double level = 1.0;             // NL: share of a noisy client's samples
  std::string gen_mode = "per_sample";
};

class InputNoise {
 public:
  static constexpr const char* kName = "distortions";
  static constexpr const char* kSummary =
      "images of some clients distorted: blur, noise, weather, colour, patches";

  // Throws Error(kind experiment) for an unknown option, set or distortion, or a bad severity.
  static InputNoise parse(const Json& table, const Distortions& known,
                          std::string_view where = "noise");
  static void declare(Params& params, InputNoiseOptions& options);

  const InputNoiseOptions& options() const { return options_; }
  // The distortions of which one is drawn for each sample.
  const std::vector<DistortionInfo>& drawn() const { return drawn_; }
  Json values() const;  // the table with all defaults filled in; parse() reads it back

  // For each client in scope: floor(level * n) samples without replacement, for each ONE distortion
  // drawn uniformly, applied to the bytes in `images`; recorded in the ledger. Draws from (seed,
  // "noise-clients", block) and (seed, "noise", block, client); the result does not depend on
  // `threads`. `input` and `given` as in LabelNoise::apply.
  void apply(const BlockInput& input, const GivenLabels& given, at::Tensor& images, Ledger& ledger,
             int threads) const;

 private:
  InputNoiseOptions options_;
  std::vector<DistortionInfo> drawn_;
  NoiseScope scope_;
  std::string where_;
};

}  // namespace winnow
