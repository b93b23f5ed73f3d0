#include "winnow/model/projected_net.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "model/support.h"

namespace winnow::projected_net_test {

const NetShape kGrey{10, 1, 28, 28};

std::vector<std::int64_t> shape_of(const Layout& layout, const std::string& name) {
  const Slot* slot = layout.find(name);
  return slot == nullptr ? std::vector<std::int64_t>{} : slot->shape;
}

TEST(ProjectedNet, PutsTwoLayersBetweenTheFeaturesAndTheHead) {
  const std::unique_ptr<Net> net = projected(builtin_networks().find("lenet5"), 16).make(kGrey);
  const LayoutPtr layout = net->weights().layout();
  EXPECT_EQ(shape_of(*layout, "fc3.weight"), (std::vector<std::int64_t>{84, 84}));
  EXPECT_EQ(shape_of(*layout, "projection.weight"), (std::vector<std::int64_t>{16, 84}));
  EXPECT_EQ(shape_of(*layout, "output.weight"), (std::vector<std::int64_t>{10, 16}));
  EXPECT_EQ(net->head_name(), "output");
  const std::int64_t head = 84 * 10 + 10;
  EXPECT_EQ(layout->parameters(), 61'706 - head + (84 * 84 + 84) + (84 * 16 + 16) + (16 * 10 + 10));
}

TEST(ProjectedNet, KeepsWhatElseIsKnownOfTheNetwork) {
  const NetInfo& plain = builtin_networks().find("vit_tiny");
  const NetInfo info = projected(plain, 32);
  EXPECT_EQ(info.name, plain.name);
  EXPECT_EQ(info.resize, plain.resize);
  EXPECT_EQ(info.summary, plain.summary + "; projected to 32 values");
}

TEST(ProjectedNet, ComputesWhatTheLayersSay) {
  const BoundNet net(projected(builtin_networks().find("lenet5"), 16).make(kGrey));
  const BoundNet body(
      builtin_networks().find("lenet5").make({84, 1, 28, 28}));  // the same seed and names
  const at::Tensor images = noise({3, 1, 28, 28}, 4);
  const c10::NoGradGuard no_gradient;
  const at::Tensor hidden = body.net->forward(images, {}).relu();
  const at::Tensor features =
      at::linear(hidden, net.weight("projection.weight"), net.weight("projection.bias"));
  EXPECT_TRUE(at::allclose(net.net->features(images, {}), features));
  EXPECT_TRUE(
      at::allclose(net.net->forward(images, {}),
                   at::linear(features, net.weight("output.weight"), net.weight("output.bias"))));
}

TEST(ProjectedNet, TrainsEveryParameterAndMovesStatistics) {
  BoundNet net(projected(builtin_networks().find("resnet18"), 8).make({4, 3, 16, 16}));
  const at::Tensor before = net.state.buffers().clone();
  const at::Tensor logits = net.net->forward(noise({4, 3, 16, 16}, 5), {.training = true});
  EXPECT_EQ(logits.sizes(), at::IntArrayRef({4, 4}));
  logits.square().sum().backward();
  for (const Slot& slot : net.state.layout->slots()) {
    if (slot.kind == SlotKind::parameter) {
      EXPECT_GT(net.gradient_of(slot).abs().max().item<float>(), 0.0F) << slot.name;
    }
  }
  EXPECT_FALSE(net.state.buffers().equal(before));
}

}  // namespace winnow::projected_net_test
