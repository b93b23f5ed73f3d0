// The experiment of the targets that need a run: it has noise and a validation set, and a round of
// it takes milliseconds.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "winnow/experiment/experiment.h"
#include "winnow/experiment/toml.h"

namespace winnow::fuzz {

// `settings` are lines of the [method] table.
inline std::string small_experiment_text(std::string_view method, std::string_view settings) {
  return fmt::format(R"(name = "small"
seed = 1
rounds = 6
[data]
name = "synthetic"
samples = 48
test_samples = 8
classes = 4
size = 16
[federation]
clients = 4
fraction = 0.5
[validation]
source = "split"
[[noise]]
name = "fedcorr_labels"
rho = 0.5
[train]
epochs = 1
[method]
name = "{}"
{}
)",
                     method, settings);
}

inline Experiment small_experiment(std::string_view method, std::string_view settings) {
  const std::string text = small_experiment_text(method, settings);
  return parse_experiment(parse_toml(text, "small.toml"), builtin_registry());
}

}  // namespace winnow::fuzz
