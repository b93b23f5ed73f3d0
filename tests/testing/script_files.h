// TorchScript files for tests, written without Python.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "winnow/base/files.h"
#include "winnow/model/net.h"
#include "winnow/model/script_export.h"
#include "winnow/model/state.h"

namespace winnow {

// Tensors of normal values drawn one after the other.
class Tensors {
 public:
  Tensors& add(const std::string& name, std::vector<std::int64_t> shape,
               SlotKind kind = SlotKind::parameter) {
    slots_.push_back({name, std::move(shape), kind, 0, 0});
    return *this;
  }
  State state() const {
    State state = State::zeros(std::make_shared<const Layout>(slots_));
    state.flat.normal_(0, 0.3, at::make_generator<at::CPUGeneratorImpl>(7));
    state.buffers().abs_();  // variances among them
    state.counters().zero_();
    return state;
  }

 private:
  std::vector<Slot> slots_;
};

// The state of a network whose head "fc" is called "head" instead, as modules have it.
inline State with_head(const State& state) {
  std::vector<Slot> slots = state.layout->slots();
  for (Slot& slot : slots) {
    if (slot.name.starts_with("fc.")) {
      slot.name = "head" + slot.name.substr(2);
    }
  }
  return {std::make_shared<const Layout>(std::move(slots)), state.flat.clone()};
}

inline std::filesystem::path write_script(const std::filesystem::path& path,
                                          const std::string& text, const State& state) {
  WholeFile file(path);
  script_file("Net", text, state, {{0.5}, {0.5}},
              [&file](std::string_view piece) { file.write(piece); });
  file.commit();
  return path;
}

// One linear map of the pixels, in a form without features and in one with.
inline const char* const kLinearText = R"(
def forward(self, x: Tensor) -> Tensor:
    return torch.linear(torch.flatten(x, 1), self.head.weight, self.head.bias)
)";
inline const char* const kLinearWithFeaturesText = R"(
def features(self, x: Tensor) -> Tensor:
    return torch.flatten(x, 1)
def forward(self, x: Tensor) -> Tensor:
    return torch.linear(self.features(x), self.head.weight, self.head.bias)
)";
inline State linear_state(const NetShape& shape) {
  const std::int64_t pixels = shape.channels * shape.height * shape.width;
  return Tensors()
      .add("head.weight", {shape.classes, pixels})
      .add("head.bias", {shape.classes})
      .state();
}

// What NormNet of testing/support.h computes, with a batch norm as Python's module writes it.
inline const char* const kNormText = R"(
def features(self, x: Tensor) -> Tensor:
    x = torch.conv2d(x, self.conv.weight, self.conv.bias, [1, 1], [1, 1], [1, 1], 1)
    if self.training:
        self.norm.num_batches_tracked.add_(1)
    x = torch.batch_norm(x, self.norm.weight, self.norm.bias, self.norm.running_mean,
                         self.norm.running_var, self.training, 0.1, 1e-05, True)
    return torch.mean(torch.relu(x), [2, 3])
def forward(self, x: Tensor) -> Tensor:
    return torch.linear(self.features(x), self.head.weight, self.head.bias)
)";

inline const char* const kDropoutText = R"(
def features(self, x: Tensor) -> Tensor:
    return torch.dropout(torch.flatten(x, 1), 0.5, self.training)
def forward(self, x: Tensor) -> Tensor:
    return torch.linear(self.features(x), self.head.weight, self.head.bias)
)";

}  // namespace winnow
