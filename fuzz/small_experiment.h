// The experiment of the targets that need a run: it has noise and a validation set, and a round of
// it takes milliseconds, or less with the small net.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>

#include "winnow/experiment/experiment.h"
#include "winnow/experiment/toml.h"
#include "winnow/model/init.h"
#include "winnow/model/layers.h"

namespace winnow::fuzz {

// A hidden layer of six values, so that a round and the files of a run are small.
class SmallNet final : public Net {
 public:
  explicit SmallNet(const NetShape& shape)
      : hidden_(weights_, "hidden", shape.channels * shape.height * shape.width, kWidth) {
    declare_head("head", kWidth, shape.classes, init::fan_in_uniform(kWidth),
                 init::fan_in_uniform(kWidth));
  }
  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    return relu_in_place(hidden_(images.flatten(1), pass));
  }

 private:
  static constexpr std::int64_t kWidth = 6;
  Linear hidden_;
};

// What Winnow brings, and the network "small".
inline Registry registry_with_small_net() {
  Registry registry = builtin_registry();
  registry.networks.add(
      {"small", "a network of one hidden layer", {4, 1, 4, 4}, 0, [](const NetShape& shape) {
         return std::make_unique<SmallNet>(shape);
       }});
  return registry;
}

// `settings` are lines of the [method] table.
inline std::string small_experiment_text(std::string_view method, std::string_view settings,
                                         int size = 16, std::string_view model = "lenet5") {
  return fmt::format(R"(name = "small"
seed = 1
rounds = 6
[data]
name = "synthetic"
samples = 48
test_samples = 8
classes = 4
size = {}
[federation]
clients = 4
fraction = 0.5
[validation]
source = "split"
[[noise]]
name = "fedcorr_labels"
rho = 0.5
[model]
name = "{}"
[train]
epochs = 1
[method]
name = "{}"
{}
)",
                     size, model, method, settings);
}

inline Experiment small_experiment(const std::string& text, const Registry& registry) {
  return parse_experiment(parse_toml(text, "small.toml"), registry);
}

}  // namespace winnow::fuzz
