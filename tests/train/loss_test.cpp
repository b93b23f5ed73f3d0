#include "winnow/train/loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "testing/support.h"

namespace winnow::loss_test {

at::Tensor logits_of(const std::vector<double>& row) {
  return at::tensor(row, at::kDouble).unsqueeze(0);
}

double loss_of(const at::Tensor& logits, std::int64_t label, double smoothing, double temperature) {
  return smoothed_cross_entropy(logits, at::tensor({label}), smoothing, temperature).item<double>();
}

// spec: label-noise C.7 #1
TEST(SmoothedCrossEntropy, GivesTheWorkedValues) {
  const at::Tensor logits = logits_of({4, 1, -2, 0});
  EXPECT_NEAR(loss_of(logits, 0, 0.1, 10.0), 1.11767234, 1e-8);
  EXPECT_NEAR(loss_of(logits, 2, 0.1, 10.0), 1.65767234, 1e-8);
  EXPECT_NEAR(loss_of(logits, 0, 0.1, 1.0), 0.39320192, 1e-8);
}

// spec: label-noise C.7 #1
TEST(SmoothedCrossEntropy, GivesTheWorkedGradient) {
  at::Tensor logits = logits_of({4, 1, -2, 0}).set_requires_grad(true);
  smoothed_cross_entropy(logits, at::tensor({std::int64_t{0}}), 0.1, 10.0).backward();
  const at::Tensor gradient = logits.grad()[0];
  const std::vector<double> expected{-0.05871564, 0.02252807, 0.01604125, 0.02014633};
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(gradient[i].item<double>(), expected[static_cast<std::size_t>(i)], 1e-8);
  }
  EXPECT_NEAR(gradient.sum().item<double>(), 0.0, 1e-15);
}

// spec: label-noise C.7 #2
TEST(SmoothedCrossEntropy, GivesTheWorkedValuesForTenClasses) {
  for (const double temperature : {0.5, 1.0, 10.0}) {
    EXPECT_NEAR(loss_of(at::zeros({1, 10}, at::kDouble), 3, 0.1, temperature), std::log(10.0),
                1e-12);
  }
  at::Tensor logits = at::zeros({1, 10}, at::kDouble);
  logits[0][3] = 10.0;
  EXPECT_NEAR(loss_of(logits, 3, 0.1, 10.0), 1.55115017, 1e-8);
  EXPECT_NEAR(loss_of(logits, 4, 0.1, 10.0), 2.45115017, 1e-8);
}

TEST(SmoothedCrossEntropy, IsPlainWithoutSmoothingAndTemperature) {
  const at::Tensor logits = at::tensor({2.0F, -1.0F, 0.5F, 0.0F, 3.0F, 1.0F}).view({2, 3});
  const at::Tensor labels = at::tensor({std::int64_t{2}, std::int64_t{0}});
  const at::Tensor loss = smoothed_cross_entropy(logits, labels, 0.0, 1.0);
  EXPECT_TRUE(at::equal(loss, at::cross_entropy_loss(logits, labels)));
  // -log softmax by hand: log(e^2 + e^-1 + e^0.5) - 0.5 and log(e^0 + e^3 + e^1) - 0.
  const double first = std::log(std::exp(2.0) + std::exp(-1.0) + std::exp(0.5)) - 0.5;
  const double second = std::log(1.0 + std::exp(3.0) + std::exp(1.0));
  EXPECT_NEAR(loss.item<double>(), (first + second) / 2.0, 1e-6);
}

TEST(SmoothedCrossEntropy, IsTheMeanOverTheBatch) {
  const at::Tensor both = at::cat({logits_of({4, 1, -2, 0}), logits_of({4, 1, -2, 0})});
  const at::Tensor labels = at::tensor({std::int64_t{0}, std::int64_t{2}});
  EXPECT_NEAR(smoothed_cross_entropy(both, labels, 0.1, 10.0).item<double>(),
              (1.11767234 + 1.65767234) / 2.0, 1e-8);
}

// spec: label-noise A.7 #6
TEST(DoubleSoftmax, GivesTheWorkedLosses) {
  const at::Tensor logits = at::tensor({2.0F, 0.5F, -1.0F}).expand({3, 3});
  const at::Tensor labels = at::arange(3, at::kLong);
  const at::Tensor twice = double_softmax_losses(logits, labels);
  const at::Tensor once = losses(logits, labels);
  const std::array<double, 3> expected{0.70171754, 1.31202418, 1.44820200};
  const std::array<double, 3> plain{0.24131130, 1.74131130, 3.24131130};
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(twice[i].item<double>(), expected[static_cast<std::size_t>(i)], 1e-6);
    EXPECT_NEAR(once[i].item<double>(), plain[static_cast<std::size_t>(i)], 1e-6);
  }
}

// spec: label-noise A.7 #6
TEST(DoubleSoftmax, IsBoundedForTenClasses) {
  const at::Tensor sure = at::zeros({2, 10});
  sure.select(1, 4).fill_(1000.0);
  const at::Tensor found = double_softmax_losses(sure, at::tensor({4, 5}, at::kLong));
  EXPECT_NEAR(found[0].item<double>(), 1.46115017, 1e-6);
  EXPECT_NEAR(found[1].item<double>(), 2.46115017, 1e-6);
  EXPECT_NEAR(double_softmax_losses(at::zeros({1, 10}), at::zeros({1}, at::kLong)).item<double>(),
              2.30258509, 1e-6);
}

}  // namespace winnow::loss_test
