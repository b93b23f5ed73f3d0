// Networks over flat buffers: gradients, running statistics, initial values.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "model/support.h"
#include "winnow/model/init.h"
#include "winnow/model/layers.h"
#include "winnow/model/net.h"

namespace winnow::net_test {

using ::testing::HasSubstr;

// One convolution, one norm, one head: small enough to write out by hand.
class TinyNet final : public Net {
 public:
  TinyNet() : conv_(weights_, "conv", {.in = 2, .out = 3}), norm_(weights_, "norm", 3) {
    declare_head("head", 12, 4, init::fan_in_uniform(12), init::zeros());
  }
  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    return relu_in_place(norm_(conv_(images, pass), pass)).flatten(1);
  }

 private:
  Conv conv_;
  BatchNorm norm_;
};

at::Tensor leaf(const at::Tensor& values) {
  return values.clone().set_requires_grad(true);
}

TEST(Net, GradientsEqualThoseOfFreeStandingTensors) {
  BoundNet bound(std::make_unique<TinyNet>());
  const at::Tensor images = noise({5, 2, 4, 4}, 3);
  const at::Tensor labels = at::tensor({0, 1, 2, 3, 1}, at::kLong);

  const std::vector<std::string> names{"conv.weight", "conv.bias",   "norm.weight",
                                       "norm.bias",   "head.weight", "head.bias"};
  std::vector<at::Tensor> free;
  for (const std::string& name : names) {
    free.push_back(leaf(bound.weight(name)));
  }
  const at::Tensor x = at::batch_norm(at::conv2d(images, free[0], free[1]), free[2], free[3], {},
                                      {}, true, 0.1, 1e-5, false);
  at::cross_entropy_loss(at::linear(x.relu().flatten(1), free[4], free[5]), labels).backward();

  at::cross_entropy_loss(bound.net->forward(images, {.training = true}), labels).backward();
  for (std::size_t index = 0; index < names.size(); ++index) {
    const Slot& slot = *bound.state.layout->find(names[index]);
    EXPECT_TRUE(at::allclose(bound.gradient_of(slot), free[index].grad().flatten(), 1e-5, 1e-7))
        << names[index];
  }
}

TEST(Net, GradientsAddUpInTheBufferUntilItIsCleared) {
  BoundNet bound(std::make_unique<TinyNet>());
  const at::Tensor images = noise({5, 2, 4, 4}, 3);
  const auto step = [&] { bound.net->forward(images, {}).square().sum().backward(); };
  step();
  const at::Tensor once = bound.gradient.clone();
  step();
  EXPECT_TRUE(at::allclose(bound.gradient, 2 * once));
  bound.gradient.zero_();
  step();
  EXPECT_TRUE(at::equal(bound.gradient, once));
}

TEST(Net, AChangeOfTheFlatBufferChangesTheNetwork) {
  BoundNet bound(std::make_unique<TinyNet>());
  const at::Tensor images = noise({5, 2, 4, 4}, 3);
  bound.weight("head.weight").zero_();
  bound.weight("head.bias").fill_(2.5);
  EXPECT_TRUE(at::equal(bound.net->forward(images, {}), at::full({5, 4}, 2.5)));
}

TEST(Net, InferenceBindingNeedsNoGradientBuffer) {
  const std::unique_ptr<Net> net = std::make_unique<TinyNet>();
  const State state = net->weights().initial(1);
  net->weights().bind(state.flat, {});
  EXPECT_FALSE(net->forward(noise({1, 2, 4, 4}, 3), {}).requires_grad());
}

TEST(Net, ABufferOfTheWrongSizeIsRefused) {
  TinyNet net;
  const std::int64_t total = net.weights().layout()->total();
  EXPECT_THAT(error_text([&] { net.weights().bind(at::zeros({total - 1}), {}); }),
              HasSubstr("wrong size"));
  EXPECT_THAT(error_text([&] { net.weights().bind(at::zeros({total}), at::zeros({3})); }),
              HasSubstr("wrong size"));
}

struct Size {
  const char* net;
  std::int64_t pixels;
  std::int64_t batch;
};

void PrintTo(const Size& size, std::ostream* out) {
  *out << size.net;
}

class NetGradient : public ::testing::TestWithParam<Size> {};

// The slope along a random direction, from the gradient buffer and from two forward passes.
TEST_P(NetGradient, AgreesWithFiniteDifferencesAndReachesEveryParameter) {
  const auto& [name, pixels, batch] = GetParam();
  BoundNet bound = bound_net(name, {5, 3, pixels, pixels}, 11, at::kDouble);
  const at::Tensor images = noise({batch, 3, pixels, pixels}, 3, at::kDouble);
  const at::Tensor labels = at::arange(batch, at::kLong);
  const at::Tensor start = bound.state.flat.clone();
  const auto loss = [&] {
    return at::cross_entropy_loss(bound.net->forward(images, {.training = true}), labels);
  };
  loss().backward();

  const std::int64_t parameters = bound.state.layout->parameters();
  // Each tensor moves in proportion to its own size, so that none drowns the others.
  const at::Tensor direction = noise({parameters}, 4, at::kDouble);
  for (const Slot& slot : bound.state.layout->slots()) {
    if (slot.kind != SlotKind::parameter) {
      continue;
    }
    const double gradient = bound.gradient_of(slot).norm().item<double>();
    EXPECT_TRUE(std::isfinite(gradient)) << slot.name;
    const bool before_norm = std::string(name) == "cnn4" && slot.name.ends_with(".0.bias");
    if (!before_norm) {  // batch norm takes the mean away, and the bias with it
      EXPECT_GT(gradient, 1e-12) << slot.name;
    }
    const double scale = start.narrow(0, slot.offset, slot.size).norm().item<double>() /
                         std::sqrt(static_cast<double>(slot.size));
    direction.narrow(0, slot.offset, slot.size).mul_(scale + 1e-3);
  }
  const double slope = bound.gradient.dot(direction).item<double>();

  const c10::NoGradGuard no_grad;
  constexpr double kStep = 1e-9;  // larger steps cross kinks of the ReLUs of deep nets
  const auto loss_at = [&](double step) {
    bound.state.flat.copy_(start);
    bound.state.parameters().add_(direction, step);
    return loss().item<double>();
  };
  const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
  EXPECT_NEAR(difference, slope, 1e-3 * std::abs(slope) + 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Zoo, NetGradient,
                         ::testing::Values(Size{"lenet5", 28, 4}, Size{"cnn4", 32, 4},
                                           Size{"cnn2", 16, 4}, Size{"resnet18", 16, 3},
                                           Size{"mobilenet", 32, 3}, Size{"convmixer_256_8", 8, 3},
                                           Size{"vit_tiny", 224, 1}, Size{"resnet50", 64, 2}));

// VGG is too large to initialise here; any values show that gradients arrive.
TEST(Net, GradientsReachEveryParameterOfVgg) {
  at::set_num_threads(1);
  const std::unique_ptr<Net> net = builtin_networks().find("vgg16_bn_cifar").make({10, 3, 32, 32});
  const LayoutPtr layout = net->weights().layout();
  const State state{layout, noise({layout->total()}, 3).mul_(0.05).abs_()};
  const at::Tensor gradient = at::zeros({layout->parameters()});
  net->weights().bind(state.flat, gradient);
  at::cross_entropy_loss(net->forward(noise({2, 3, 32, 32}, 4), {.training = true}),
                         at::tensor({1, 2}, at::kLong))
      .backward();
  for (const Slot& slot : layout->slots()) {
    if (slot.kind == SlotKind::parameter) {
      EXPECT_GT(gradient.narrow(0, slot.offset, slot.size).abs().max().item<float>(), 0)
          << slot.name;
    }
  }
}

TEST(Net, TrainingMovesRunningStatisticsInTheFlatBufferAndNothingElse) {
  BoundNet bound = bound_net("resnet18", {10, 3, 16, 16});
  const State before = bound.state.clone();
  const at::Tensor images = noise({4, 3, 16, 16}, 3);
  bound.net->forward(images, {.training = false});
  EXPECT_EQ(hash(bound.state), hash(before));
  bound.net->forward(images, {.training = true}).sum().backward();
  EXPECT_TRUE(at::equal(bound.state.parameters(), before.parameters()));
  EXPECT_TRUE(at::equal(bound.state.counters(), before.counters()));
  for (const Slot& slot : bound.state.layout->slots()) {
    if (slot.kind == SlotKind::buffer) {
      EXPECT_FALSE(at::equal(bound.state.view(slot), before.view(slot))) << slot.name;
    }
  }
}

TEST(Net, DropoutComesFromThePassAndOnlyInTraining) {
  BoundNet bound = bound_net("cnn2", {10, 3, 32, 32});
  const c10::NoGradGuard no_grad;
  const at::Tensor images = noise({2, 3, 32, 32}, 3);
  const auto with_seed = [&](std::uint64_t seed, bool training) {
    const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    return bound.net->forward(images, {.training = training, .dropout = &generator});
  };
  const at::Tensor plain = bound.net->forward(images, {});
  EXPECT_TRUE(at::equal(with_seed(1, false), plain));
  EXPECT_TRUE(at::equal(bound.net->forward(images, {.training = true}), plain));
  EXPECT_TRUE(at::equal(with_seed(1, true), with_seed(1, true)));
  EXPECT_FALSE(at::equal(with_seed(1, true), with_seed(2, true)));
  EXPECT_FALSE(at::equal(with_seed(1, true), plain));
}

TEST(Initial, IsTheSameForTheSameSeedAndAnotherForEachTensor) {
  const std::unique_ptr<Net> net = builtin_networks().find("cnn4").make({10, 3, 32, 32});
  const State one = net->weights().initial(1);
  EXPECT_EQ(hash(one), hash(net->weights().initial(1)));
  EXPECT_NE(hash(one), hash(net->weights().initial(2)));
  const auto first = [&](const char* name) {
    return one.view(*one.layout->find(name)).flatten()[0].item<float>();
  };
  EXPECT_NE(first("features.1.0.weight"), first("features.2.0.weight"));
}

TEST(Initial, DoesNotDependOnTheOtherTensors) {
  const State ten = builtin_networks().find("cnn4").make({10, 3, 32, 32})->weights().initial(1);
  const State hundred =
      builtin_networks().find("cnn4").make({100, 3, 32, 32})->weights().initial(1);
  const char* name = "features.3.0.weight";
  EXPECT_TRUE(
      at::equal(ten.view(*ten.layout->find(name)), hundred.view(*hundred.layout->find(name))));
}

struct Spread {
  const char* net;
  const char* tensor;
  double bound;  // largest magnitude allowed
  double std;    // expected standard deviation
};

TEST(Initial, SpreadsAreThoseOfTheLibraries) {
  for (const auto& [name, tensor, bound, std] :
       {Spread{"resnet18", "layer2.0.conv2.weight", 1 / std::sqrt(1152.0), 1 / std::sqrt(3456.0)},
        {"lenet5", "fc1.weight", 0.05, 0.05 / std::sqrt(3.0)},
        {"mobilenet", "layers.7.conv1.weight", 1.0 / 3, 1 / std::sqrt(27.0)},
        {"cnn2", "fc1.weight", std::sqrt(6.0 / 12672), std::sqrt(2.0 / 12672)},
        {"cnn2", "conv2.weight", std::sqrt(6.0 / 864), std::sqrt(2.0 / 864)},
        {"vit_tiny", "blocks.3.mlp.fc1.weight", 2.0, 0.02},
        {"vit_tiny", "pos_embed", 2.0, 0.02},
        {"vit_tiny", "patch_embed.proj.weight", 1 / std::sqrt(768.0), 1 / std::sqrt(2304.0)},
        {"resnet50", "layer1.0.conv2.weight", 1.0, std::sqrt(2.0 / 576)}}) {
    const std::unique_ptr<Net> net = builtin_networks().find(name).make({10, 3, 32, 32});
    const State state = net->weights().initial(3);
    const at::Tensor values = state.view(*state.layout->find(tensor));
    EXPECT_LE(values.abs().max().item<double>(), bound * (1 + 1e-6)) << name << " " << tensor;
    EXPECT_NEAR(values.std().item<double>() / std, 1.0, 0.05) << name << " " << tensor;
    EXPECT_NEAR(values.mean().item<double>() / std, 0.0, 0.05) << name << " " << tensor;
  }
}

TEST(Initial, ConstantsAreZeroAndOneWhereTheLibrariesHaveThem) {
  const std::unique_ptr<Net> net = builtin_networks().find("resnet18").make({10, 3, 32, 32});
  const State state = net->weights().initial(3);
  for (const Slot& slot : state.layout->slots()) {
    const at::Tensor values = state.view(slot);
    if (slot.name.ends_with("running_var") || slot.name.ends_with("bn1.weight")) {
      EXPECT_TRUE(values.eq(1).all().item<bool>()) << slot.name;
    } else if (slot.name.ends_with("running_mean") || slot.name.ends_with("bn1.bias") ||
               slot.name.ends_with("num_batches_tracked")) {
      EXPECT_TRUE(values.eq(0).all().item<bool>()) << slot.name;
    }
  }
  const State cnn2 = builtin_networks().find("cnn2").make({10, 3, 32, 32})->weights().initial(3);
  EXPECT_TRUE(cnn2.view(*cnn2.layout->find("conv1.bias")).eq(0).all().item<bool>());
}

TEST(WeightsCopy, HoldsParametersAlignedAndConvolutionsChannelsLast) {
  Weights weights;
  const at::Tensor* kernel = weights.add("conv.weight", {2, 3, 2, 2}, init::ones());
  const at::Tensor* scale =
      weights.add("norm.weight", {3}, init::ones(), SlotKind::parameter, /*precise=*/true);
  const at::Tensor* mean = weights.add("norm.mean", {3}, init::zeros(), SlotKind::buffer);
  EXPECT_EQ(weights.copy_offsets(), (std::vector<std::int64_t>{0, 128}));
  EXPECT_EQ(weights.copy_size(), 256);
  const at::Tensor flat = at::zeros({weights.layout()->total()});
  const at::Tensor copy = at::arange(256, at::kFloat);
  EXPECT_EQ(weights.copy_size(SlotKind::buffer), 128);
  const at::Tensor statistics = at::zeros({128});
  weights.bind_copy(flat, copy, statistics, true);
  EXPECT_TRUE(kernel->is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_EQ(kernel->index({0, 1, 0, 0}).item<float>(), 1.0F) << "channels lie together";
  EXPECT_EQ(kernel->index({0, 0, 0, 1}).item<float>(), 3.0F);
  EXPECT_EQ(scale->data_ptr<float>(), copy.data_ptr<float>() + 128);
  EXPECT_EQ(mean->data_ptr<float>(), statistics.data_ptr<float>());
  EXPECT_TRUE(kernel->requires_grad());
  EXPECT_FALSE(mean->requires_grad());
  weights.bind_copy(flat, copy.to(at::kBFloat16), statistics, false);
  EXPECT_EQ(kernel->scalar_type(), at::kBFloat16);
  EXPECT_EQ(scale->scalar_type(), at::kFloat) << "precise parameters stay float32";
  EXPECT_EQ(weights.parameters().size(), 2U);
}

}  // namespace winnow::net_test
