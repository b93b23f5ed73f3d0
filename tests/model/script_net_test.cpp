#include "winnow/model/script_net.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "model/support.h"
#include "testing/script_files.h"

namespace winnow::script_net_test {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

const NetShape kShape{3, 1, 4, 4};

class ScriptNet : public ::testing::Test {
 protected:
  ScriptNet() { fs::create_directories(folder_); }
  ~ScriptNet() override { fs::remove_all(folder_); }

  fs::path write(const std::string& text, const State& state) const {
    return write_script(folder_ / "net.pt", text, state);
  }
  BoundNet bound(const std::string& text, const State& state) const {
    return BoundNet(ScriptModel(write(text, state)).info().make(kShape));
  }
  std::string fault(const std::string& text, const State& state) const {
    return error_text([&] { bound(text, state); });
  }

  fs::path folder_ =
      fs::temp_directory_path() / ("winnow_script_net_" + std::to_string(::getpid()));
};

TEST_F(ScriptNet, StartsFromTheValuesInTheFileWhateverTheSeed) {
  const State state = linear_state(kShape);
  const std::unique_ptr<Net> net = ScriptModel(write(kLinearText, state)).info().make(kShape);
  EXPECT_EQ(*net->weights().layout(), *state.layout);
  EXPECT_TRUE(at::equal(net->weights().initial(1).flat, state.flat));
  EXPECT_TRUE(at::equal(net->weights().initial(2).flat, state.flat));
}

TEST_F(ScriptNet, ComputesWithTheWeightsItIsBoundToAndFollowsThem) {
  const State state = linear_state(kShape);
  BoundNet net = bound(kLinearText, state);
  const at::Tensor images = noise({2, 1, 4, 4}, 3);
  const auto expected = [&] {
    return at::linear(images.flatten(1), net.weight("head.weight"), net.weight("head.bias"));
  };
  EXPECT_TRUE(at::allclose(net.net->forward(images, {}), expected()));
  net.state.flat.mul_(2);
  EXPECT_TRUE(at::allclose(net.net->forward(images, {}), expected()));
  const at::Tensor other = noise({state.layout->total()}, 5);
  net.net->weights().bind(other, {});
  net.state.flat = other;
  EXPECT_TRUE(at::allclose(net.net->forward(images, {}), expected()));
}

TEST_F(ScriptNet, GradientsArriveInTheFlatBuffer) {
  BoundNet net = bound(kLinearText, linear_state(kShape));
  const at::Tensor images = noise({2, 1, 4, 4}, 3);
  torch::autograd::backward({net.net->forward(images, {.training = true}).sum()}, {});
  const Slot& weight = *net.state.layout->find("head.weight");
  const Slot& bias = *net.state.layout->find("head.bias");
  EXPECT_TRUE(at::allclose(net.gradient_of(weight).view(weight.shape),
                           images.flatten(1).sum(0).expand({3, 16})));
  EXPECT_TRUE(at::allclose(net.gradient_of(bias), at::full({3}, 2.0F)));
}

TEST_F(ScriptNet, TwoNetworksOfOneFileDoNotShareAnything) {
  const ScriptModel model(write(kLinearText, linear_state(kShape)));
  BoundNet one(model.info().make(kShape));
  BoundNet two(model.info().make(kShape));
  const at::Tensor images = noise({2, 1, 4, 4}, 3);
  const at::Tensor before = two.net->forward(images, {}).clone();
  one.state.flat.zero_();
  EXPECT_TRUE(at::equal(one.net->forward(images, {}), at::zeros({2, 3})));
  EXPECT_TRUE(at::equal(two.net->forward(images, {}), before));
}

State norm_state() {
  return Tensors()
      .add("conv.weight", {2, 1, 3, 3})
      .add("conv.bias", {2})
      .add("norm.weight", {2})
      .add("norm.bias", {2})
      .add("norm.running_mean", {2}, SlotKind::buffer)
      .add("norm.running_var", {2}, SlotKind::buffer)
      .add("norm.num_batches_tracked", {}, SlotKind::counter)
      .add("head.weight", {3, 2})
      .add("head.bias", {3})
      .state();
}

TEST_F(ScriptNet, TheHeadLiesTogetherAndStatisticsAreNotParameters) {
  BoundNet net = bound(kNormText, norm_state());
  const Layout& layout = *net.state.layout;
  EXPECT_EQ(net.net->head_name(), "head");
  EXPECT_EQ(layout.find("head.bias")->offset,
            layout.find("head.weight")->offset + layout.find("head.weight")->size);
  EXPECT_EQ(layout.find("norm.running_var")->kind, SlotKind::buffer);
  EXPECT_EQ(layout.find("norm.num_batches_tracked")->kind, SlotKind::counter);
  EXPECT_EQ(layout.parameters(), 2 * 9 + 2 + 4 + 9);
}

TEST_F(ScriptNet, TrainingMovesTheStatisticsInTheStateAndLeavesCountingToTheLane) {
  BoundNet net = bound(kNormText, norm_state());
  const at::Tensor images = noise({4, 1, 4, 4}, 3);
  const at::Tensor before = net.state.flat.clone();
  net.net->forward(images, {});
  EXPECT_TRUE(at::equal(net.state.flat, before)) << "eval mode";
  net.net->forward(images, {.training = true});
  EXPECT_FALSE(at::equal(net.state.buffers(), before.slice(0, -5, -1)));
  EXPECT_EQ(net.weight("norm.num_batches_tracked").item<float>(), 0.0F);
}

TEST_F(ScriptNet, GivesFeaturesWhereTheModuleHasThem) {
  BoundNet net = bound(kNormText, norm_state());
  const at::Tensor images = noise({2, 1, 4, 4}, 3);
  const at::Tensor features = net.net->features(images, {});
  EXPECT_EQ(features.sizes(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_TRUE(at::allclose(net.net->logits(features), net.net->forward(images, {})));
}

TEST_F(ScriptNet, SaysWhatIsMissingWhenAskedForFeatures) {
  const at::Tensor images = noise({2, 1, 4, 4}, 3);
  const auto asked = [&](const std::string& text, const State& state) {
    const BoundNet net = bound(text, state);
    EXPECT_EQ(net.net->forward(images, {}).size(1), 3);
    return error_text([&] { net.net->features(images, {}); });
  };
  EXPECT_THAT(asked(kLinearText, linear_state(kShape)),
              AllOf(HasSubstr("net.pt: this method needs features, but the module has no method "
                              "`features` | "),
                    HasSubstr("docs/own-model.md")));
  EXPECT_THAT(asked(R"(
def features(self, x: Tensor) -> Tensor:
    return torch.flatten(x, 1)
def forward(self, x: Tensor) -> Tensor:
    return torch.linear(self.features(x), self.last.weight)
)",
                    Tensors().add("last.weight", {3, 16}).state()),
              HasSubstr("has no Linear submodule `head` with trainable weight and bias"));
  EXPECT_THAT(asked(R"(
def features(self, x: Tensor) -> Tensor:
    return x
def forward(self, x: Tensor) -> Tensor:
    return torch.linear(torch.flatten(x, 1), self.head.weight, self.head.bias)
)",
                    linear_state(kShape)),
              HasSubstr("its features(x) gives [2, 1, 4, 4] where `head` takes [batch, 16]"));
  EXPECT_THAT(asked(R"(
def features(self, x: Tensor) -> Tensor:
    return torch.flatten(x, 1)
def forward(self, x: Tensor) -> Tensor:
    return torch.linear(self.features(x), self.head.weight, self.head.bias) * 2
)",
                    linear_state(kShape)),
              HasSubstr("its forward(x) is not head(features(x))"));
}

TEST_F(ScriptNet, DropoutIsOnInTrainingAndComesFromTheGivenGenerator) {
  BoundNet net = bound(kDropoutText, linear_state(kShape));
  const at::Tensor images = noise({2, 1, 4, 4}, 3);
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(9);
  const Pass training{.training = true, .dropout = &generator};
  const at::Tensor first = net.net->forward(images, training);
  EXPECT_FALSE(at::equal(net.net->forward(images, training), first));
  generator.set_current_seed(9);
  EXPECT_TRUE(at::equal(net.net->forward(images, training), first));
  EXPECT_TRUE(at::equal(net.net->forward(images, {}), net.net->forward(images, {})));
}

TEST_F(ScriptNet, TheSameInputGivesTheSameBitsHoweverOftenItRan) {
  BoundNet net = bound(kNormText, norm_state());
  const at::Tensor images = noise({4, 1, 4, 4}, 3);
  const auto step = [&] {
    net.gradient.zero_();
    torch::autograd::backward({net.net->forward(images, {.training = true}).pow(2).sum()}, {});
    return net.gradient.clone();
  };
  const at::Tensor first = step();
  for (int repeat = 0; repeat < 5; ++repeat) {
    EXPECT_TRUE(at::equal(step(), first));
  }
}

TEST_F(ScriptNet, FilesThatAreNoneAreNamed) {
  EXPECT_THAT(error_text([&] { ScriptModel(folder_ / "none.pt"); }),
              AllOf(HasSubstr("cannot read"), HasSubstr("none.pt: no such file")));
  write_file_whole(folder_ / "broken.pt", "not a model");
  const std::string text = error_text([&] { ScriptModel(folder_ / "broken.pt"); });
  EXPECT_THAT(text, AllOf(HasSubstr("broken.pt is not a TorchScript file: "), Not(HasSubstr("\n")),
                          EndsWith("torch.jit.script(model).save(path)")));
  std::string cut = read_file(write(kLinearText, linear_state(kShape)));
  cut.resize(cut.size() / 2);
  write_file_whole(folder_ / "cut.pt", cut);
  EXPECT_THAT(error_text([&] { ScriptModel(folder_ / "cut.pt"); }),
              AllOf(HasSubstr("cut.pt is not a TorchScript file: "), Not(HasSubstr("\n"))));
}

TEST_F(ScriptNet, AModuleWithoutParametersIsRefused) {
  EXPECT_THAT(fault("def forward(self, x: Tensor) -> Tensor:\n    return x\n",
                    Tensors().add("table", {2}, SlotKind::buffer).state()),
              HasSubstr("net.pt: it has no parameters to train | "));
}

TEST_F(ScriptNet, AModuleWithoutForwardIsRefused) {
  EXPECT_THAT(
      fault("def predict(self, x: Tensor) -> Tensor:\n    return x\n", linear_state(kShape)),
      HasSubstr("net.pt: the module has no forward"));
}

TEST_F(ScriptNet, ImagesItCannotTakeAndAnotherNumberOfClassesAreNamed) {
  const State state = linear_state({3, 1, 5, 5});
  EXPECT_THAT(fault(kLinearText, state),
              AllOf(HasSubstr("net.pt: its forward failed on input [2, 1, 4, 4]: "),
                    HasSubstr("shapes cannot be multiplied"), Not(HasSubstr("\n"))));
  EXPECT_THAT(fault(kLinearText, linear_state({7, 1, 4, 4})),
              HasSubstr("its forward gives [2, 7] for 2 images: expected float32 [2, 3], a logit "
                        "for every class"));
}

TEST_F(ScriptNet, TheTrainedModuleComesBackWithItsNewWeights) {
  const State state = norm_state();
  const ScriptModel model(write(kNormText, state));
  BoundNet net(model.info().make(kShape));
  net.state.flat.copy_(noise({net.state.layout->total()}, 8).abs());
  net.weight("norm.num_batches_tracked").fill_(12);
  std::stringstream stream;
  model.write_trained(net.state, {{0.25}, {0.75}}, [&stream](std::string_view piece) {
    stream.write(piece.data(), std::ssize(piece));
  });
  torch::jit::Module back = torch::jit::load(stream);
  EXPECT_FALSE(back.is_training());
  EXPECT_EQ(back.attr("norm").toModule().attr("num_batches_tracked").toTensor().item<long>(), 12);
  for (const auto& [name, value] : back.named_parameters()) {
    EXPECT_TRUE(at::equal(value, net.weight(name))) << name;
    EXPECT_TRUE(value.requires_grad()) << name;
  }
  const at::Tensor images = noise({2, 1, 4, 4}, 3);
  EXPECT_TRUE(at::allclose(back.forward({images}).toTensor(), net.net->forward(images, {})));
  // The file had a mean of its own; it is the module's business.
  EXPECT_EQ(back.attr("mean").toDoubleVector(), std::vector<double>{0.5});
}

// Makes a module look traced: torch.jit.trace writes a call stack where a script has an expression.
void mark_traced(torch::jit::Block* block) {
  const std::string stack = "/home/me/net.py(8): forward\n/home/me/net.py(20): <module>\n";
  const auto source = std::make_shared<torch::jit::Source>(stack, "/home/me/net.py", 8);
  for (torch::jit::Node* node : block->nodes()) {
    node->setSourceRange(torch::jit::SourceRange(source, 0, stack.size()));
    for (torch::jit::Block* inner : node->blocks()) {
      mark_traced(inner);
    }
  }
}

fs::path traced(const fs::path& file) {
  const torch::jit::Module module = torch::jit::load(file.string());
  for (const torch::jit::Method& method : module.get_methods()) {
    mark_traced(method.graph()->block());
  }
  module.save(file.string());
  return file;
}

// The texts with the mode written out, as a trace has it.
std::string in_mode(std::string text, const char* mode) {
  for (std::size_t at = text.find("if self.training:"); at != std::string::npos;
       at = text.find("if self.training:")) {
    text.erase(at, text.find("x = torch.batch_norm", at) - at);
  }
  for (std::size_t at = text.find("self.training"); at != std::string::npos;
       at = text.find("self.training")) {
    text.replace(at, std::string("self.training").size(), mode);
  }
  return text;
}

TEST_F(ScriptNet, ATraceThatFixesTheModeIsRefused) {
  const auto fault_of = [&](const std::string& text, const State& state) {
    const fs::path file = traced(write(text, state));
    return error_text([&] { const ScriptModel model(file); });
  };
  for (const char* mode : {"True", "False"}) {
    EXPECT_EQ(fault_of(in_mode(kNormText, mode), norm_state()),
              (folder_ / "net.pt").string() +
                  ": it was made with torch.jit.trace, so its batch_norm would stay in the mode of "
                  "the trace in training and in evaluation | write it in Python with "
                  "torch.jit.script(model).save(path)");
    EXPECT_THAT(fault_of(in_mode(kDropoutText, mode), linear_state(kShape)),
                HasSubstr("so its dropout would stay in the mode"));
  }
}

TEST_F(ScriptNet, ATraceWithoutAModeIsTakenWithANotice) {
  const ScriptModel model(traced(write(kLinearText, linear_state(kShape))));
  EXPECT_THAT(model.notice(),
              HasSubstr("net.pt was made with torch.jit.trace: branches and loops"));
  model.info().make(kShape);
}

TEST_F(ScriptNet, AModeThatTheAuthorFixedIsTakenWithANotice) {
  const ScriptModel model(write(in_mode(kDropoutText, "True"), linear_state(kShape)));
  EXPECT_THAT(model.notice(),
              HasSubstr("net.pt: the mode of its dropout is a constant, the same in training"));
}

TEST_F(ScriptNet, OfAScriptedModuleThereIsNothingToSay) {
  EXPECT_EQ(ScriptModel(write(kLinearText, linear_state(kShape))).notice(), "");
  EXPECT_EQ(ScriptModel(write(kNormText, norm_state())).notice(), "");
  EXPECT_EQ(ScriptModel(write(kDropoutText, linear_state(kShape))).notice(), "");
  std::string text = in_mode(kDropoutText, "True");
  text.replace(text.find("0.5"), 3, "0.0");
  EXPECT_EQ(ScriptModel(write(text, linear_state(kShape))).notice(), "") << "drops nothing";
}

}  // namespace winnow::script_net_test
