#include "winnow/model/layers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/support.h"
#include "winnow/model/init.h"

namespace winnow::layers_test {

// Binds declared weights to a fresh buffer for inference and returns the state.
State bind(Weights& weights) {
  State state = weights.initial(1);
  weights.bind(state.flat, {});
  return state;
}

TEST(Conv, DeclaresWeightAndBiasAndComputesTheConvolution) {
  Weights weights;
  const Conv conv(weights, "c",
                  {.in = 4, .out = 6, .kernel = 3, .stride = 2, .padding = 1, .groups = 2});
  const State state = bind(weights);
  EXPECT_EQ(state.layout->find("c.weight")->shape, (std::vector<std::int64_t>{6, 2, 3, 3}));
  const at::Tensor x = noise({2, 4, 7, 7}, 2);
  const at::Tensor expected =
      at::conv2d(x, state.view(*state.layout->find("c.weight")),
                 state.view(*state.layout->find("c.bias")), {2, 2}, {1, 1}, {1, 1}, 2);
  EXPECT_TRUE(at::equal(conv(x, {}), expected));
}

TEST(Conv, WithoutBiasDeclaresNone) {
  Weights weights;
  const Conv conv(weights, "c", {.in = 1, .out = 1, .kernel = 1, .bias = false});
  const State state = bind(weights);
  EXPECT_EQ(state.layout->slots().size(), 1U);
  EXPECT_EQ(conv.bias, nullptr);
  EXPECT_TRUE(at::equal(conv(at::zeros({1, 1, 2, 2}), {}), at::zeros({1, 1, 2, 2})));
}

TEST(Linear, ComputesTheAffineMap) {
  Weights weights;
  const Linear linear(weights, "l", 2, 1);
  const State state = bind(weights);
  state.flat.copy_(at::tensor({2.0F, 3.0F, 0.5F}));
  EXPECT_FLOAT_EQ(linear(at::tensor({1.0F, 10.0F}), {}).item<float>(), 32.5F);
}

TEST(BatchNorm, NormalisesWithTheBatchInTrainingAndWithRunningStatisticsOutside) {
  Weights weights;
  const BatchNorm norm(weights, "n", 1);
  const State state = bind(weights);
  const at::Tensor x = at::tensor({1.0F, 2.0F, 3.0F, 6.0F}).view({4, 1, 1, 1});

  const double scale = 1 / std::sqrt(3.5 + 1e-5);  // mean 3, variance 14/4
  EXPECT_TRUE(at::allclose(norm(x, {.training = true}), (x - 3) * scale));
  // momentum 0.1 and the unbiased variance 14/3
  const auto value = [&](const char* name) {
    return state.view(*state.layout->find(name)).item<double>();
  };
  EXPECT_NEAR(value("n.running_mean"), 0.3, 1e-6);
  EXPECT_NEAR(value("n.running_var"), 0.9 + 0.1 * 14 / 3, 1e-6);
  EXPECT_EQ(value("n.num_batches_tracked"), 0.0);  // counted once per step, not by the layer

  const double mean = value("n.running_mean");
  const double running_scale = 1 / std::sqrt(value("n.running_var") + 1e-5);
  EXPECT_TRUE(at::allclose(norm(x, {}), (x - mean) * running_scale));
  EXPECT_NEAR(value("n.running_mean"), mean, 0.0);
}

TEST(BatchNorm, WithoutRunningStatisticsAlwaysUsesTheBatchAndHasNoBuffers) {
  Weights weights;
  const BatchNorm norm(weights, "n", 2, Statistics::batch);
  const State state = bind(weights);
  EXPECT_EQ(state.layout->buffers() + state.layout->counters(), 0);
  const at::Tensor x = noise({3, 2, 2, 2}, 2) * 4 + 7;
  EXPECT_TRUE(at::equal(norm(x, {}), norm(x, {.training = true})));
  EXPECT_NEAR(norm(x, {}).mean().item<double>(), 0.0, 1e-6);
}

TEST(LayerNorm, NormalisesTheLastDimension) {
  Weights weights;
  const LayerNorm norm(weights, "n", 4, 1e-6);
  bind(weights);
  const at::Tensor x = at::tensor({1.0F, 2.0F, 3.0F, 6.0F}).view({1, 1, 4});
  EXPECT_TRUE(at::allclose(norm(x, {}), (x - 3) / std::sqrt(3.5 + 1e-6)));
}

TEST(Dropout, DropsTheGivenShareAndKeepsTheMean) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(7);
  const at::Tensor y =
      dropout(at::ones({100, 1000}), 0.25, {.training = true, .dropout = &generator});
  EXPECT_NEAR(y.eq(0).to(at::kFloat).mean().item<double>(), 0.25, 0.01);
  EXPECT_NEAR(y.mean().item<double>(), 1.0, 0.01);
  EXPECT_NEAR(y.max().item<double>(), 4.0 / 3, 1e-6);
}

TEST(Dropout, GradientPassesThroughTheSameMask) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(7);
  const at::Tensor x = at::ones({50}).set_requires_grad(true);
  const at::Tensor y = dropout(x, 0.5, {.training = true, .dropout = &generator});
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), y.detach()));
}

TEST(Dropout, IsTheIdentityWithoutTrainingOrGenerator) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(7);
  const at::Tensor x = at::ones({5});
  EXPECT_TRUE(dropout(x, 0.5, {.training = false, .dropout = &generator}).is_same(x));
  EXPECT_TRUE(dropout(x, 0.5, {.training = true}).is_same(x));
}

TEST(Pooling, TakesMaximaAndMeans) {
  const at::Tensor x = at::arange(16, at::kFloat).view({1, 1, 4, 4});
  EXPECT_TRUE(at::equal(max_pool(x, 2).flatten(), at::tensor({5.0F, 7.0F, 13.0F, 15.0F})));
  EXPECT_TRUE(at::equal(global_average_pool(x), at::full({1, 1}, 7.5)));
}

TEST(Pooling, CoversAMapOfAnySizeEvenly) {
  const at::Tensor map = at::arange(49, at::kFloat).view({1, 1, 7, 7});
  EXPECT_TRUE(adaptive_average_pool(map, 7).is_same(map));
  // Rows and columns 0, 0, 0, half and half, 1, 1, 1 of a 2x2 map.
  const at::Tensor along = at::tensor({0.0F, 0.0F, 0.0F, 0.5F, 1.0F, 1.0F, 1.0F});
  const at::Tensor small = at::tensor({0.0F, 1.0F, 10.0F, 11.0F}).view({1, 1, 2, 2});
  EXPECT_TRUE(at::allclose(adaptive_average_pool(small, 7).view({7, 7}),
                           along.view({1, 7}) + 10 * along.view({7, 1})));
  const at::Tensor large = at::arange(14, at::kFloat).view({1, 1, 1, 14}).expand({1, 1, 14, 14});
  EXPECT_TRUE(at::allclose(adaptive_average_pool(large, 7)[0][0][3],
                           at::tensor({0.5F, 2.5F, 4.5F, 6.5F, 8.5F, 10.5F, 12.5F})));
}

TEST(Pooling, RepeatsASingleValueAndSumsItsGradient) {
  const at::Tensor value = at::tensor({3.0F, -2.0F}).view({1, 2, 1, 1}).set_requires_grad(true);
  const at::Tensor map = adaptive_average_pool(value, 7);
  EXPECT_TRUE(at::equal(map, at::adaptive_avg_pool2d(value, {7, 7})));
  EXPECT_TRUE(at::equal(map.flatten(2)[0][1], at::full({49}, -2.0)));
  (map * at::arange(49, at::kFloat).view({7, 7})).sum().backward();
  EXPECT_TRUE(at::equal(value.grad().flatten(), at::full({2}, 48 * 49 / 2)));
}

TEST(Init, TruncatedNormalIsCutAtTwoWhateverItsSpread) {
  Stream stream(1, "test");
  std::vector<float> values(20'000);
  init::trunc_normal(1.5)(stream, values);
  double largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  EXPECT_LE(largest, 2.0);
  EXPECT_GT(largest, 1.95);
}

// Also with one channel, where both layouts are the same bytes and only the strides tell.
TEST(ChannelsTogether, LaysTheSameImagesOutByPixel) {
  for (const std::int64_t channels : {1, 3}) {
    const at::Tensor x = noise({2, channels, 4, 5}, 3);
    const at::Tensor y = channels_together(x);
    EXPECT_TRUE(at::equal(x, y));
    EXPECT_EQ(y.suggest_memory_format(), at::MemoryFormat::ChannelsLast) << channels;
  }
}

}  // namespace winnow::layers_test
