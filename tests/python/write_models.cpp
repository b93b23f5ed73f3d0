// Writes networks of the zoo for Python to read: DIR/NAME.pt, DIR/NAME.safetensors, and in
// DIR/NAME.check.safetensors some images with the logits that Winnow gives them.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "winnow/base/arithmetic.h"
#include "winnow/base/files.h"
#include "winnow/model/net.h"
#include "winnow/model/safetensors.h"
#include "winnow/model/script_export.h"

namespace winnow {
namespace {

void write_model(const std::filesystem::path& directory, const std::string& name) {
  const c10::NoGradGuard no_gradient;
  const NetInfo& info = builtin_networks().find(name);
  const std::int64_t size = info.resize > 0 ? info.resize : 32;
  const NetShape shape{10, 3, size, size};
  const std::unique_ptr<Net> net = info.make(shape);
  const State state = net->weights().initial(1);
  net->weights().bind(state.flat, {});
  const at::Tensor images =
      at::randn({2, 3, size, size}, at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{2}));
  save_tensors(directory / fmt::format("{}.check.safetensors", name),
               {{{"images", images}, {"logits", net->forward(images, {})}}, {}});
  save_state(directory / fmt::format("{}.safetensors", name), state);
  WholeFile script(directory / fmt::format("{}.pt", name));
  export_script(name, shape, state, {{0.5, 0.5, 0.5}, {0.25, 0.25, 0.25}},
                [&script](std::string_view piece) { script.write(piece); });
  script.commit();
}

}  // namespace
}  // namespace winnow

int main(int count, char** words) {
  try {
    winnow::adopt_arithmetic(winnow::default_arithmetic(), words);
    for (int i = 2; i < count; ++i) {
      winnow::write_model(words[1], words[i]);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return count < 3 ? 2 : 0;
}
