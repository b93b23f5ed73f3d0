// A noise block of any kind, as an experiment writes it under [[noise]].
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/noise/attack/attack.h"
#include "winnow/noise/image/input_noise.h"
#include "winnow/noise/label/label_noise.h"

namespace winnow {

using Noise = std::variant<LabelNoise, InputNoise, Attack>;

// The name may be an alias (noise_alias.h). Throws Error(kind experiment) for an unknown name, with
// a suggestion, and for bad options.
Noise parse_noise(const Json& given, const LabelNoises& label_noises,
                  const Distortions& distortions, std::string_view where);
Json values(const Noise& noise);

// How a kind of noise is listed and described; `declared` calls back with its parameters.
struct NoiseInfo {
  std::string name;
  std::string summary;
  std::function<void(const std::function<void(const Params&)>&)> declared;
};
// The label noises, and the one block for all distortions.
std::vector<NoiseInfo> noises(const LabelNoises& label_noises);

}  // namespace winnow
