#include "winnow/model/script_export.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

#include "model/support.h"
#include "winnow/model/projected_net.h"
#include "winnow/model/script_text.h"

namespace winnow::script_export_test {

using ::testing::HasSubstr;

torch::jit::Module read_back(const std::string& bytes) {
  std::istringstream stream(bytes);
  return torch::jit::load(stream);
}

std::string exported(const std::string& model, const NetShape& shape, const State& state,
                     const Normalisation& input) {
  std::string bytes;
  export_script(model, shape, state, input, [&bytes](std::string_view piece) { bytes += piece; });
  return bytes;
}

const Normalisation kInput{{0.25, 0.5, 0.75}, {0.5, 0.25, 0.125}};

// Values of a size that keeps the signal alive through a deep network, quickly drawn.
State drawn_state(const Net& net) {
  State state = State::zeros(net.weights().layout());
  for (const Slot& slot : state.layout->slots()) {
    const double fan_in = slot.shape.empty() ? 1.0
                                             : static_cast<double>(slot.size) /
                                                   static_cast<double>(slot.shape.front());
    const at::Tensor values = state.view(slot);
    if (slot.kind == SlotKind::counter) {
      values.fill_(7);
    } else if (slot.name.ends_with("running_var")) {
      values.uniform_(0.5, 1.5, at::make_generator<at::CPUGeneratorImpl>(3));
    } else {
      const double bound = slot.shape.size() > 1 ? std::sqrt(6.0 / fan_in) : 0.2;
      values.uniform_(-bound, bound, at::make_generator<at::CPUGeneratorImpl>(4));
      if (slot.shape.size() == 1 && slot.name.ends_with(".weight")) {
        values.add_(1);  // of a normalisation
      }
    }
  }
  return state;
}

class ScriptExport : public ::testing::TestWithParam<NetInfo> {};

TEST_P(ScriptExport, LoadedBackItGivesTheNetworksLogits) {
  at::set_num_threads(1);
  const NetInfo& info = GetParam();
  const NetShape shape{5, 3, info.resize > 0 ? info.resize : 32,
                       info.resize > 0 ? info.resize : 32};
  const std::unique_ptr<Net> net = info.make(shape);
  const State state = drawn_state(*net);
  net->weights().bind(state.flat, {});
  torch::jit::Module module = read_back(exported(info.name, shape, state, kInput));
  const c10::NoGradGuard no_gradient;
  const at::Tensor images = noise({2, 3, shape.height, shape.width}, 5);
  const at::Tensor expected = net->forward(images, {});
  const at::Tensor found = module.forward({images}).toTensor();
  EXPECT_GT(expected.std().item<double>(), 1e-3);
  // MobileNet sums in another order than its script, under 27 norms over a batch of two.
  const double tolerance = info.name == "mobilenet" ? 2e-4 : 1e-5;
  EXPECT_TRUE(at::allclose(found, expected, tolerance, tolerance))
      << (found - expected).abs().max().item<double>() << " apart";
}

INSTANTIATE_TEST_SUITE_P(Zoo, ScriptExport, ::testing::ValuesIn(builtin_networks()),
                         [](const auto& test) { return test.param.name; });

TEST(ScriptExport, NamesShapesAndValuesAreThoseOfTheState) {
  const NetShape shape{10, 3, 32, 32};
  const std::unique_ptr<Net> net = builtin_networks().find("resnet18").make(shape);
  const State state = drawn_state(*net);
  const torch::jit::Module module = read_back(exported("resnet18", shape, state, kInput));
  std::size_t tensors = 0;
  const auto expect = [&](const auto& list, bool parameters) {
    for (const auto& [name, value] : list) {
      const Slot* slot = state.layout->find(name);
      ASSERT_NE(slot, nullptr) << name;
      EXPECT_EQ(slot->kind == SlotKind::parameter, parameters) << name;
      EXPECT_EQ(value.requires_grad(), parameters) << name;
      EXPECT_EQ(value.scalar_type(), slot->kind == SlotKind::counter ? at::kLong : at::kFloat);
      EXPECT_TRUE(at::equal(value.to(at::kFloat), state.view(*slot))) << name;
      ++tensors;
    }
  };
  expect(module.named_parameters(), true);
  expect(module.named_buffers(), false);
  EXPECT_EQ(tensors, state.layout->slots().size());
}

TEST(ScriptExport, SaysHowImagesAreNormalised) {
  const NetShape shape{10, 3, 32, 32};
  const State state = builtin_networks().find("lenet5").make(shape)->weights().initial(1);
  const torch::jit::Module module = read_back(exported("lenet5", shape, state, kInput));
  EXPECT_EQ(module.attr("mean").toDoubleVector(), kInput.mean);
  EXPECT_EQ(module.attr("std").toDoubleVector(), kInput.std);
}

TEST(ScriptExport, PadsTheSmallImagesThatLeNetPads) {
  const NetShape shape{10, 1, 28, 28};
  BoundNet bound = bound_net("lenet5", shape);
  torch::jit::Module module = read_back(exported("lenet5", shape, bound.state, {{0.5}, {0.5}}));
  const at::Tensor images = noise({2, 1, 28, 28}, 5);
  EXPECT_TRUE(at::allclose(module.forward({images}).toTensor(), bound.net->forward(images, {}),
                           1e-5, 1e-5));
}

TEST(ScriptExport, FollowsAProjectionBeforeTheHead) {
  const NetShape shape{10, 3, 32, 32};
  BoundNet bound(projected(builtin_networks().find("lenet5"), 7).make(shape));
  torch::jit::Module module = read_back(exported("lenet5", shape, bound.state, kInput));
  const at::Tensor images = noise({2, 3, 32, 32}, 5);
  EXPECT_TRUE(at::allclose(module.forward({images}).toTensor(), bound.net->forward(images, {}),
                           1e-5, 1e-5));
}

TEST(ScriptExport, InTrainingModeItUsesTheStatisticsOfTheBatchAndDropsOut) {
  const NetShape shape{10, 3, 32, 32};
  BoundNet bound = bound_net("convmixer_256_8", shape);
  torch::jit::Module module = read_back(exported("convmixer_256_8", shape, bound.state, kInput));
  const c10::NoGradGuard no_gradient;
  const at::Tensor images = noise({4, 3, 32, 32}, 5);
  EXPECT_FALSE(module.is_training());
  module.train();
  EXPECT_TRUE(at::allclose(module.forward({images}).toTensor(),
                           bound.net->forward(images, {.training = true}), 1e-5, 1e-5));
  const State cnn = builtin_networks().find("cnn2").make(shape)->weights().initial(1);
  torch::jit::Module dropping = read_back(exported("cnn2", shape, cnn, kInput));
  dropping.train();
  EXPECT_FALSE(
      at::equal(dropping.forward({images}).toTensor(), dropping.forward({images}).toTensor()));
}

TEST(ScriptExport, TheSameStateGivesTheSameBytes) {
  const NetShape shape{10, 3, 32, 32};
  const State state = builtin_networks().find("cnn4").make(shape)->weights().initial(1);
  EXPECT_EQ(exported("cnn4", shape, state, kInput), exported("cnn4", shape, state, kInput));
}

TEST(ScriptExport, WritesWeightsFromWhereTheyLie) {
  const NetShape shape{10, 3, 32, 32};
  const State state = builtin_networks().find("resnet18").make(shape)->weights().initial(1);
  const auto* begin = reinterpret_cast<const char*>(state.flat.data_ptr<float>());
  const char* end = begin + state.bytes();
  std::int64_t lent_bytes = 0;
  std::size_t longest_copy = 0;
  export_script("resnet18", shape, state, kInput, [&](std::string_view piece) {
    if (piece.data() >= begin && piece.data() < end) {
      lent_bytes += std::ssize(piece);
    } else {
      longest_copy = std::max(longest_copy, piece.size());
    }
  });
  // All but the counters, which the file has as whole numbers.
  EXPECT_EQ(lent_bytes, state.bytes() - 4 * state.counters().numel());
  EXPECT_LT(longest_copy, 100'000U);  // the largest weight of this network has 9 MB
}

TEST(ScriptExport, WhatTheSinkThrowsComesOutAndNoPieceFollows) {
  const NetShape shape{10, 3, 32, 32};
  const State state = builtin_networks().find("lenet5").make(shape)->weights().initial(1);
  int pieces = 0;
  EXPECT_EQ(error_text([&] {
              export_script("lenet5", shape, state, kInput, [&](std::string_view) {
                ++pieces;
                throw Error(ErrorKind::run, "the disk is full");
              });
            }),
            "the disk is full");
  EXPECT_EQ(pieces, 1);
}

TEST(ScriptExport, AModelWithoutTextIsOurBug) {
  const State state = builtin_networks().find("lenet5").make({})->weights().initial(1);
  EXPECT_THAT(error_text([&] { script_text("lenet6", {}, *state.layout); }),
              HasSubstr("model 'lenet6' has no TorchScript text"));
}

}  // namespace winnow::script_export_test
