// A noise block of any kind, as an experiment writes it under [[noise]].
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/noise/input_noise.h"
#include "winnow/noise/label_noise.h"

namespace winnow {

using Noise = std::variant<LabelNoise, InputNoise>;

// Throws Error(kind experiment) for an unknown name, with a suggestion, and for bad options.
Noise parse_noise(const Json& table, std::string_view where);
Json values(const Noise& noise);

// How a kind of noise is listed and described; `declared` calls back with its parameters.
struct NoiseInfo {
  std::string name;
  std::string summary;
  std::function<void(const std::function<void(const Params&)>&)> declared;
};
const std::vector<NoiseInfo>& noises();

}  // namespace winnow
