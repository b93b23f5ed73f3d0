#include "winnow/method/noisy_label/rhfl/arithmetic.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "testing/support.h"

namespace winnow::rhfl::rhfl_collaboration_test {

void expect_near(const std::vector<double>& values, const std::vector<double>& expected,
                 double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance) << "client " << i;
  }
}

const std::vector<double> kBefore{2, 2, 2, 2};
const std::vector<double> kNow{1, 1.5, 1.8, 1.9};

// spec: baselines 17 CHECK
TEST(RHFLConfidence, GivesTheNumbersOfTheSpec) {
  const std::vector<double> shares = improvement_shares(kBefore, kNow);
  expect_near(shares, {.667969, .222656, .074219, .035156}, 1e-6);
  expect_near(confidence_weights(shares, 0.5), {.305596, .244596, .227100, .222707}, 1e-6);
}

// spec: baselines 17 CHECK
TEST(RHFLConfidence, TheConstantCancels) {
  const std::vector<double> shares = improvement_shares(kBefore, kNow);
  std::vector<double> with_constant;
  double sum = 0.0;
  for (const double share : shares) {
    with_constant.push_back(std::exp(1.0 / 3.0 + 0.5 * share));
    sum += with_constant.back();
  }
  for (double& value : with_constant) {
    value /= sum;
  }
  expect_near(confidence_weights(shares, 0.5), with_constant, 1e-12);
}

// spec: baselines 17 CHECK
TEST(RHFLConfidence, BetaZeroTrustsAllEqually) {
  expect_near(confidence_weights(improvement_shares(kBefore, kNow), 0.0), {.25, .25, .25, .25},
              1e-15);
}

// spec: baselines 17 [!]: q = (.1111, -.0476, -.0566)
TEST(RHFLConfidence, ASumOfFallsNearZeroExplodesTheShares) {
  const std::vector<double> before{1.1111, 1 - .0476, 1 - .0566};
  const std::vector<double> now{1, 1, 1};
  expect_near(improvement_shares(before, now), {16.1, -6.9, -8.2}, 0.05);
}

TEST(RHFLConfidence, WhereTheSumIsNotPositiveAllAreTrustedEqually) {
  const std::vector<double> third(3, 1.0 / 3.0);
  for (const std::vector<double>& before :
       {std::vector<double>{1, 1, 1}, {.9, .9, .9}, {1.5, .5, 1.0}, {1.5, .5, 1 + 1e-8}}) {
    const std::vector<double> shares = improvement_shares(before, std::vector<double>{1, 1, 1});
    expect_near(shares, {0, 0, 0}, 0.0);
    expect_near(confidence_weights(shares, 0.5), third, 1e-15);
  }
  EXPECT_TRUE(confidence_weights({}, 0.5).empty());
}

TEST(RHFLConfidence, StaysFiniteForALossOfZero) {
  const std::vector<double> weights = confidence_weights(
      improvement_shares(std::vector<double>{1, 1}, std::vector<double>{0, .5}), 0.5);
  EXPECT_NEAR(weights[0] + weights[1], 1.0, 1e-12);
  EXPECT_GT(weights[0], weights[1]);
}

TEST(RHFLMixtures, LeaveOutWhatIsOnesOwn) {
  const std::vector<std::vector<float>> outputs{{1, 0}, {0, 1}, {0.5F, 0.5F}};
  const auto mixed = mixtures(std::vector<double>{0.5, 0.3, 0.2}, outputs);
  ASSERT_EQ(mixed.size(), 3U);
  EXPECT_FLOAT_EQ(mixed[0][0], 0.1F);
  EXPECT_FLOAT_EQ(mixed[0][1], 0.4F);
  EXPECT_FLOAT_EQ(mixed[1][0], 0.6F);
  EXPECT_FLOAT_EQ(mixed[1][1], 0.1F);
  EXPECT_FLOAT_EQ(mixed[2][0], 0.5F);
  EXPECT_FLOAT_EQ(mixed[2][1], 0.3F);
}

TEST(RHFLMixtures, DoNotLookAtOutputsOfWeightZero) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto mixed = mixtures(std::vector<double>{0.5, 0.0}, {{0.25F, 0.75F}, {nan, nan}});
  EXPECT_EQ(mixed[0], (std::vector<float>{0, 0}));
  EXPECT_EQ(mixed[1], (std::vector<float>{0.125F, 0.375F}));
}

at::Tensor logits_of(std::vector<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return at::tensor(values).view({1, count});
}

const at::Tensor& first_class() {
  static const at::Tensor label = at::zeros({1}, at::kLong);
  return label;
}

double symmetric(const at::Tensor& logits, double alpha, double beta) {
  return symmetric_cross_entropies(logits.to(at::kDouble), first_class(), alpha, beta)
      .item<double>();
}

// spec: baselines 25 CHECK
TEST(SymmetricCrossEntropy, GivesTheNumbersOfTheSpec) {
  const at::Tensor logits = logits_of({2, 1, 0});
  EXPECT_NEAR(symmetric(logits, 1, 0), .407606, 1e-6);
  EXPECT_NEAR(symmetric(logits, 0, 1), 3.083245, 1e-6);
  EXPECT_NEAR(symmetric(logits, .1, 1), 3.124005, 2e-6);
}

// spec: baselines 25 CHECK
TEST(SymmetricCrossEntropy, TheReversePartIsBounded) {
  EXPECT_NEAR(symmetric(logits_of({-50, 50, 0}), 0, 1), 9.210340, 1e-5);
  EXPECT_LE(symmetric(logits_of({-50, 50, 0}), 0, 1), 9.2103404);
  EXPECT_EQ(symmetric(logits_of({100, 0, 0}), 0, 1), 0.0);
}

// spec: baselines 25 CHECK, T3
TEST(SymmetricCrossEntropy, WithoutItIsCrossEntropy) {
  const at::Tensor logits = at::arange(12, at::kFloat).view({4, 3}).sin();
  const at::Tensor labels = at::tensor(std::vector<std::int64_t>{0, 2, 1, 2});
  EXPECT_TRUE(at::allclose(symmetric_cross_entropies(logits, labels, 1, 0).mean(),
                           at::cross_entropy_loss(logits, labels), 1e-6, 1e-7));
}

// spec: baselines 17 CHECK: what the loss leaves out is the target's entropy
TEST(Distillation, IsTheDivergenceButForAConstant) {
  const at::Tensor target = at::tensor({0.7, 0.3}, at::kDouble).view({1, 2});
  const at::Tensor even = at::zeros({1, 2}, at::kDouble);
  const double divergence =
      (distillation_loss(even, target) - distillation_loss(target.log(), target)).item<double>();
  EXPECT_NEAR(divergence, .082283, 1e-6);
}

// The derivative of sum_i W_i KL(p_i || p) in the logits is sum_i W_i (p - p_i), over the batch.
TEST(Distillation, TheMixtureGivesTheGradientOfTheSum) {
  const at::Tensor logits = at::arange(6, at::kDouble).view({2, 3}).cos().requires_grad_();
  const at::Tensor first = at::arange(6, at::kDouble).view({2, 3}).sin().softmax(1);
  const at::Tensor second = at::arange(6, at::kDouble).view({2, 3}).mul(0.3).softmax(1);
  distillation_loss(logits, first * 0.6 + second * 0.25).backward();
  const at::Tensor p = logits.detach().softmax(1);
  const at::Tensor expected = ((p - first) * 0.6 + (p - second) * 0.25) / 2;
  EXPECT_TRUE(at::allclose(logits.grad(), expected, 1e-10, 1e-12));
}

}  // namespace winnow::rhfl::rhfl_collaboration_test
