#include "winnow/method/noisy_label/fedlsr/losses.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace winnow::fedlsr::losses_test {

at::Tensor row(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble).view({1, -1});
}

void expect_near(const at::Tensor& found, const std::vector<double>& expected) {
  EXPECT_LT((found - row(expected)).abs().max().item<double>(), 1e-6) << found;
}

// spec: baselines 18: the worked example.
struct Worked {
  at::Tensor z = row({2, 1, 0});
  at::Tensor z2 = row({1.5, 1.2, .1});
  at::Tensor lambda = at::tensor({.3}, at::kDouble);
  at::Tensor label = at::tensor({std::int64_t{0}}, at::kLong);
  at::Tensor q = confident(z);
  at::Tensor q2 = confident(z2);
};

TEST(FedLsrLosses, MixAndSharpenAsWorked) {
  const Worked worked;
  const at::Tensor p = mixed(worked.z, worked.z2, worked.lambda);
  expect_near(p, {.551789, .334347, .113865});
  expect_near(sharpened(p), {.709352, .260442, .030206});
}

TEST(FedLsrLosses, ClassLossAsWorked) {
  const Worked worked;
  const at::Tensor p = sharpened(mixed(worked.z, worked.z2, worked.lambda));
  EXPECT_NEAR(class_loss(p, worked.label, true).item<double>(), .763314, 1e-6);
  EXPECT_NEAR(class_loss(p, worked.label, false).item<double>(), .343403, 1e-6);
}

TEST(FedLsrLosses, DivergenceAsWorked) {
  const Worked worked;
  EXPECT_NEAR(divergence(worked.q, worked.q2, true).item<double>(), .019365, 1e-6);
  EXPECT_NEAR(divergence(worked.q, worked.q2, false).item<double>(), .058095, 1e-6);
}

TEST(FedLsrLosses, EntropyAsWorked) {
  const Worked worked;
  EXPECT_NEAR(entropy(worked.q, worked.q2, true).item<double>(), .992881, 1e-6);
  EXPECT_NEAR(entropy(worked.q, worked.q, false).item<double>(), .207022, 1e-6);
  const double both = entropy(worked.q, worked.q2, false).item<double>();
  const double second = entropy(worked.q2, worked.q2, false).item<double>();
  EXPECT_NEAR(both, (.207022 + second) / 2, 1e-6);
}

// spec: baselines 18
TEST(FedLsrLosses, EqualViewsDoNotDivergeAndMixToThemselves) {
  const Worked worked;
  EXPECT_EQ(divergence(worked.q, worked.q, false).item<double>(), 0.0);
  for (const double lambda : {0.0, .3, 1.0}) {
    EXPECT_TRUE(at::allclose(mixed(worked.z, worked.z, at::tensor({lambda}, at::kDouble)),
                             worked.z.softmax(1)));
  }
}

TEST(FedLsrLosses, StayFiniteForExtremeLogits) {
  const at::Tensor z = at::tensor({200.0F, -200.0F}).view({1, 2}).set_requires_grad(true);
  const at::Tensor z2 = at::tensor({-200.0F, 200.0F}).view({1, 2});
  const at::Tensor label = at::tensor({std::int64_t{1}}, at::kLong);
  const at::Tensor one = at::ones({1});
  const at::Tensor loss = class_loss(sharpened(mixed(z, z2, one)), label, false) +
                          divergence(confident(z), confident(z2), false) +
                          entropy(confident(z), confident(z2), false);
  EXPECT_TRUE(std::isfinite(loss.item<float>()));
  loss.backward();
  EXPECT_TRUE(z.grad().isfinite().all().item<bool>());
  EXPECT_NEAR(confident(z).min().item<float>(), 1e-6, 1e-9);
}

TEST(FedLsrLosses, AreMeansOverTheBatch) {
  const Worked worked;
  const auto twice = [](const at::Tensor& rows) { return at::cat({rows, rows}); };
  const at::Tensor q = twice(worked.q);
  const at::Tensor q2 = twice(worked.q2);
  EXPECT_NEAR(divergence(q, q2, false).item<double>(), .058095, 1e-6);
  EXPECT_NEAR(entropy(q, q, false).item<double>(), .207022, 1e-6);
}

// spec: baselines 18
TEST(FedLsrLosses, GammaRisesOverTheWarmUp) {
  EXPECT_NEAR(gamma_in(.4, 5, 20), .1, 1e-12);
  EXPECT_EQ(gamma_in(.4, 0, 20), 0.0);
  EXPECT_EQ(gamma_in(.4, 20, 20), .4);
  EXPECT_EQ(gamma_in(.4, 90, 20), .4);
  EXPECT_EQ(gamma_in(.4, 0, 0), .4) << "without a warm-up";
}

}  // namespace winnow::fedlsr::losses_test
