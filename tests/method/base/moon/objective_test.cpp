#include "winnow/method/base/moon/objective.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "winnow/method/unit_rows.h"

namespace winnow::moon::contrast_test {

// A direction whose cosine with (1, 0) is given.
at::Tensor at_cosine(double cosine) {
  return at::tensor({cosine, std::sqrt(1 - cosine * cosine)}, at::kDouble).view({1, 2});
}

double term(double received, double previous, double scale = 1.0) {
  const at::Tensor features = at::tensor({scale, 0.0}, at::kDouble).view({1, 2});
  return contrast(features, at_cosine(received), at_cosine(previous), 0.5).item<double>();
}

// spec: baselines 8
TEST(MoonContrast, GivesTheWorkedValues) {
  EXPECT_NEAR(term(.9, .5), .371101, 1e-6);
  EXPECT_NEAR(term(.5, .9), 1.171101, 1e-6);
  EXPECT_NEAR(term(1, -1), .018150, 1e-6);
  EXPECT_NEAR(term(-1, 1), 4.018150, 1e-6);
  for (const double equal : {-.3, 0.0, .7}) {
    EXPECT_NEAR(term(equal, equal), .693147, 1e-6);
  }
}

// spec: baselines 8
TEST(MoonContrast, DoesNotDependOnTheLengthOfFeatures) {
  for (const double scale : {1e-3, 7.0, 1e4}) {
    EXPECT_NEAR(term(.9, .5, scale), .371101, 1e-6) << scale;
  }
  const at::Tensor features = at::tensor({1.0, 0.0}, at::kDouble).view({1, 2});
  EXPECT_NEAR(contrast(features, 50 * at_cosine(.9), at_cosine(.5) / 50, 0.5).item<double>(),
              .371101, 1e-6);
}

TEST(MoonContrast, ALowerTemperatureSharpensIt) {
  const at::Tensor features = at::tensor({1.0, 0.0}, at::kDouble).view({1, 2});
  EXPECT_NEAR(contrast(features, at_cosine(.5), at_cosine(.9), 0.01).item<double>(), 40.0, 1e-6);
  EXPECT_NEAR(contrast(features, at_cosine(.9), at_cosine(.5), 0.01).item<double>(), 0.0, 1e-6);
}

// spec: baselines 8: the first participation.
TEST(MoonContrast, OfEqualModelsIsLn2WithoutAGradient) {
  const at::Tensor features = at::randn({5, 4}).set_requires_grad(true);
  const at::Tensor same = at::randn({5, 4});
  const at::Tensor terms = contrast(features, same, same, 0.5);
  EXPECT_TRUE(at::allclose(terms, at::full({5}, std::log(2.0F))));
  terms.sum().backward();
  EXPECT_EQ(features.grad().abs().max().item<float>(), 0.0F) << "exactly";
}

TEST(MoonContrast, ItsGradientLeadsTowardsTheReceivedModel) {
  const at::Tensor features = at::tensor({1.0, 0.0}, at::kDouble).view({1, 2});
  features.set_requires_grad(true);
  contrast(features, at_cosine(.9), at::tensor({.9, -.6}, at::kDouble).view({1, 2}), 0.5)
      .sum()
      .backward();
  EXPECT_LT(features.grad()[0][1].item<double>(), -.1);
  EXPECT_NEAR(features.grad()[0][0].item<double>(), 0.0, 1e-12) << "length changes nothing";
}

TEST(MoonContrast, ARowOfZerosIsSimilarToNothing) {
  const at::Tensor features = at::zeros({1, 2}).set_requires_grad(true);
  const at::Tensor value =
      contrast(features, at_cosine(.9).to(at::kFloat), at_cosine(.2).to(at::kFloat), 0.5);
  EXPECT_NEAR(value.item<float>(), std::log(2.0), 1e-6);
  value.sum().backward();
  EXPECT_EQ(features.grad().abs().max().item<float>(), 0.0F);
}

TEST(UnitRows, HaveLengthOneOrNone) {
  const at::Tensor rows = unit_rows(at::tensor({3.0F, 4.0F, 0.0F, 0.0F}).view({2, 2}));
  EXPECT_TRUE(at::allclose(rows, at::tensor({.6F, .8F, 0.0F, 0.0F}).view({2, 2})));
}

}  // namespace winnow::moon::contrast_test
