#include "winnow/train/sgd.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "testing/support.h"

namespace winnow::sgd_test {

// The buffers of one training and the steps taken on them.
struct Trainer {
  explicit Trainer(const std::vector<float>& start)
      : weights(at::tensor(start)),
        gradient(at::zeros_like(weights)),
        velocity(at::full_like(weights, std::numeric_limits<float>::quiet_NaN())) {}

  void step(const std::vector<float>& new_gradient, const SgdOptions& options) {
    gradient.copy_(at::tensor(new_gradient));
    sgd_step(weights, gradient, velocity, anchor, options, first);
    first = false;
  }
  float weight(std::int64_t place = 0) const { return weights[place].item<float>(); }

  at::Tensor weights;
  at::Tensor gradient;
  at::Tensor velocity;  // not a number until the first step writes it
  at::Tensor anchor;
  bool first = true;
};

// Gradient descent on f = (v - 3)^2 / 2 from v = 0, pulled towards 0.
float descend(int steps, double proximal, double lr = 0.1) {
  Trainer trainer({0.0F});
  trainer.anchor = at::zeros({1});
  for (int i = 0; i < steps; ++i) {
    trainer.step({trainer.weight() - 3.0F}, {.lr = lr, .proximal = proximal});
  }
  return trainer.weight();
}

// spec: label-noise 0.2
TEST(Sgd, FollowsPyTorchWithMomentumAndWeightDecay) {
  const SgdOptions options{.lr = 0.5, .momentum = 0.9, .weight_decay = 0.1};
  Trainer trainer({1.0F, -2.0F});
  trainer.step({2.0F, 0.0F}, options);  // g = 2.1, -0.2; v = g
  EXPECT_NEAR(trainer.weight(0), -0.05, 1e-6);
  EXPECT_NEAR(trainer.weight(1), -1.9, 1e-6);
  trainer.step({-1.0F, 0.0F}, options);  // g = -1.005, -0.19; v = 0.885, -0.37
  EXPECT_NEAR(trainer.velocity[0].item<float>(), 0.885, 1e-6);
  EXPECT_NEAR(trainer.weight(0), -0.4925, 1e-6);
  EXPECT_NEAR(trainer.weight(1), -1.715, 1e-6);
  trainer.step({0.5F, 1.0F}, options);  // g = 0.45075, 0.8285; v = 1.24725, 0.4955
  EXPECT_NEAR(trainer.weight(0), -1.116125, 1e-6);
  EXPECT_NEAR(trainer.weight(1), -1.96275, 1e-6);
}

TEST(Sgd, WithoutMomentumForgetsEarlierGradients) {
  Trainer trainer({1.0F});
  trainer.step({4.0F}, {.lr = 0.25});
  EXPECT_EQ(trainer.weight(), 0.0F);
  trainer.step({2.0F}, {.lr = 0.25});
  EXPECT_EQ(trainer.weight(), -0.5F);
  trainer.step({0.0F}, {.lr = 0.25});
  EXPECT_EQ(trainer.weight(), -0.5F);
}

TEST(Sgd, LeavesTheGradientZero) {
  for (const double momentum : {0.0, 0.9}) {
    Trainer trainer({1.0F, 2.0F, 3.0F});
    for (int i = 0; i < 2; ++i) {
      trainer.step({1.0F, -5.0F, 0.5F}, {.momentum = momentum, .weight_decay = 0.1});
      EXPECT_EQ(values_of(trainer.gradient), (std::vector<float>{0.0F, 0.0F, 0.0F}));
    }
  }
}

TEST(Sgd, AddsDecayAndPullToTheGradient) {
  Trainer trainer({2.0F});
  trainer.anchor = at::tensor({1.0F});
  trainer.step({1.0F}, {.lr = 1.0, .weight_decay = 0.1, .proximal = 0.5});
  EXPECT_FLOAT_EQ(trainer.weight(), 2.0F - (1.0F + 0.2F + 0.5F));
  EXPECT_EQ(trainer.anchor.item<float>(), 1.0F);
}

// spec: baselines 2
TEST(Sgd, ProximalTermGivesTheWorkedNumbers) {
  EXPECT_FLOAT_EQ(descend(2, 1.0), 0.54F);
  EXPECT_FLOAT_EQ(descend(2, 0.0), 0.57F);
  EXPECT_NEAR(descend(500, 1.0), 1.5, 1e-6);
  EXPECT_NEAR(descend(500, 0.0), 3.0, 1e-5);
}

// spec: baselines 2
TEST(Sgd, FirstProximalStepIsThePlainOne) {
  EXPECT_EQ(descend(1, 1.0), descend(1, 0.0));
  EXPECT_FLOAT_EQ(descend(1, 1.0), 0.3F);
}

// spec: baselines 2: 0.1, where the unsquared norm would give 0.05
TEST(Sgd, ProximalTermAddsMuTimesTheDistance) {
  Trainer trainer({1.0F});
  trainer.anchor = at::zeros({1});
  trainer.step({0.0F}, {.lr = 1.0, .proximal = 0.1});
  EXPECT_FLOAT_EQ(trainer.weight(), 0.9F);
}

// spec: baselines 2
TEST(Sgd, ZeroMuIsPlainBitForBit) {
  const SgdOptions options{.lr = 0.03, .momentum = 0.7, .weight_decay = 0.01, .proximal = 0.0};
  Trainer plain({0.1F, 1e8F, -3.0F});
  Trainer anchored({0.1F, 1e8F, -3.0F});
  anchored.anchor = at::full({3}, std::numeric_limits<float>::infinity());
  for (int i = 0; i < 3; ++i) {
    const std::vector<float> gradient{0.7F, -1e-8F, static_cast<float>(i)};
    plain.step(gradient, options);
    anchored.step(gradient, options);
  }
  EXPECT_TRUE(at::equal(plain.weights, anchored.weights));
}

// spec: label-noise A.7 #10, beta 5 and muhat 0.4
TEST(Sgd, ThePullOfANormHasTheSameStrengthAtAnyDistance) {
  Trainer trainer({1.0F, 0.0F, 4.5F});
  trainer.anchor = at::tensor({1.0F, 2.0F, 3.0F});
  trainer.step({0.0F, 0.0F, 0.0F}, {.lr = 1.0, .proximal = 5 * 0.4, .pull = Pull::norm});
  EXPECT_FLOAT_EQ(trainer.weight(0), 1.0F);
  EXPECT_FLOAT_EQ(trainer.weight(1), 0.0F + 1.6F);
  EXPECT_FLOAT_EQ(trainer.weight(2), 4.5F - 1.2F);
}

// spec: label-noise A.7 #10: the squared form without the half has twice the strength
TEST(Sgd, TheSquaredPullWithoutTheHalfIsTwiceTheStrength) {
  Trainer trainer({1.0F, 0.0F, 4.5F});
  trainer.anchor = at::tensor({1.0F, 2.0F, 3.0F});
  trainer.step({0.0F, 0.0F, 0.0F}, {.lr = 1.0, .proximal = 2 * 5 * 0.4});
  EXPECT_FLOAT_EQ(trainer.weight(1), 8.0F);
  EXPECT_FLOAT_EQ(trainer.weight(2), 4.5F - 6.0F);
}

TEST(Sgd, AtTheAnchorNeitherFormPulls) {
  Trainer trainer({1.0F, 2.0F});
  trainer.anchor = at::tensor({1.0F, 2.0F});
  trainer.step({0.5F, 0.0F}, {.lr = 1.0, .proximal = 3.0, .pull = Pull::norm});
  EXPECT_EQ(values_of(trainer.weights), (std::vector<float>{0.5F, 2.0F}));
}

}  // namespace winnow::sgd_test
