#include "winnow/train/soft_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "testing/support.h"
#include "winnow/train/loss.h"

namespace winnow::soft_loss_test {

at::Tensor rows(std::initializer_list<double> values, std::int64_t columns) {
  return at::tensor(std::vector<double>(values), at::kDouble).view({-1, columns});
}

at::Tensor numbers(std::initializer_list<std::int64_t> values) {
  return at::tensor(std::vector<std::int64_t>(values), at::kLong);
}

at::Tensor count(std::int64_t value) {
  return at::full({1}, value, at::kLong);
}

TEST(SoftLoss, TermsHaveTheSmoothedCrossEntropyAsTheirMean) {
  const at::Tensor logits = rows({2, 1, 0, 0, 3, -1}, 3);
  const at::Tensor labels = numbers({0, 2});
  EXPECT_NEAR(smoothed_cross_entropies(logits, labels, 0.1, 4.0).mean().item<double>(),
              smoothed_cross_entropy(logits, labels, 0.1, 4.0).item<double>(), 1e-12);
  EXPECT_NEAR(smoothed_cross_entropies(logits, labels, 0.0, 1.0)[0].item<double>(), 0.407606, 1e-6);
}

TEST(SoftLoss, SoftTargetsThatAreOneHotGiveCrossEntropy) {
  const at::Tensor logits = rows({2, 1, 0, 0, 3, -1}, 3);
  const at::Tensor labels = numbers({0, 2});
  EXPECT_TRUE(at::allclose(soft_cross_entropies(logits, one_hot_rows(labels, 3).to(at::kDouble)),
                           losses(logits, labels)));
}

TEST(SoftLoss, EntropyIsLargestForUniformPredictions) {
  const at::Tensor entropy = entropies(rows({1, 1, 1, 9, 0, 0, 80, 0, 0}, 3));
  EXPECT_NEAR(entropy[0].item<double>(), std::log(3.0), 1e-12);
  EXPECT_LT(entropy[1].item<double>(), 0.01);
  EXPECT_NEAR(entropy[2].item<double>(), 0.0, 1e-12);
}

// spec: baselines 24
TEST(SoftLoss, UniformityPenaltyIsZeroForAUniformMeanOnly) {
  EXPECT_NEAR(uniformity_penalty(rows({.5, .3, .2}, 3).log()).item<double>(), 0.070240, 1e-6);
  EXPECT_NEAR(uniformity_penalty(rows({.7, .3, .3, .7}, 2).log()).item<double>(), 0.0, 1e-12);
  EXPECT_GT(uniformity_penalty(rows({.7, .3, .4, .6}, 2).log()).item<double>(), 1e-4);
}

TEST(SoftLoss, UniformityPenaltyIsFiniteForAClassThatIsNeverPredicted) {
  at::Tensor logits = at::tensor(std::vector<float>{300, 0}).view({1, 2}).set_requires_grad(true);
  const at::Tensor penalty = uniformity_penalty(logits);
  EXPECT_NEAR(penalty.item<double>(), 150.0 - std::log(2.0), 1e-3);
  const at::Tensor gradient = torch::autograd::grad({penalty}, {logits}).front();
  EXPECT_TRUE(gradient.isfinite().all().item<bool>());
}

TEST(SoftLoss, OneHotRowsMarkTheLabel) {
  EXPECT_EQ(values_of(one_hot_rows(numbers({2, 0}), 3)), (std::vector<float>{0, 0, 1, 1, 0, 0}));
}

TEST(SoftLoss, SmallestMarksAsManyAsAskedEarlierFirst) {
  const at::Tensor values = at::tensor(std::vector<float>{.4F, .1F, 2, .4F});
  EXPECT_EQ(values_of(smallest(values, count(2))), (std::vector<float>{1, 1, 0, 0}));
  EXPECT_EQ(values_of(smallest(values, count(3))), (std::vector<float>{1, 1, 0, 1}));
  EXPECT_EQ(values_of(smallest(values, count(0))), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(values_of(smallest(values, count(9))), (std::vector<float>{1, 1, 1, 1}));
}

TEST(SoftLoss, ChosenMeanOfNothingIsZero) {
  const at::Tensor values = at::tensor(std::vector<float>{1, 5, 3});
  EXPECT_EQ(chosen_mean(values, at::tensor(std::vector<float>{1, 0, 1})).item<float>(), 2.0F);
  EXPECT_EQ(chosen_mean(values, at::zeros({3})).item<float>(), 0.0F);
}

}  // namespace winnow::soft_loss_test
