#include "winnow/method/noisy_label/rofl/arithmetic.h"
#include "winnow/train/soft_loss.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "testing/support.h"

namespace winnow::rofl::rules_test {

using testing::ElementsAre;
using testing::FloatNear;

at::Tensor rows(const std::vector<float>& values, std::int64_t width) {
  return at::tensor(values).view({-1, width});
}

at::Tensor labels(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong);
}

at::Tensor mask(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong).to(at::kBool);
}

std::vector<std::int64_t> chosen(const std::vector<float>& losses, std::int64_t count) {
  return numbers_of(smallest(at::tensor(losses), labels({count})).to(at::kLong));
}

// spec: baselines 16
TEST(RoflRules, TheForgetRateRisesOverTheFirstRounds) {
  const Options options;
  EXPECT_EQ(forget_rate_in(options, 0), 0.0);
  EXPECT_NEAR(forget_rate_in(options, 3), 0.2 / 3, 1e-12);
  EXPECT_NEAR(forget_rate_in(options, 9), 0.2, 1e-12);
  EXPECT_EQ(forget_rate_in(options, 500), 0.2);
  EXPECT_EQ(forget_rate_in({.forget_rounds = 1}, 0), 0.0);
  EXPECT_EQ(forget_rate_in({.forget_rounds = 1}, 1), 0.2);
}

// spec: baselines 16
TEST(RoflRules, TheCentroidTermRisesUntilPseudoLabels) {
  const Options options;
  EXPECT_EQ(centroid_weight_in(options, 25), 0.25);
  EXPECT_EQ(centroid_weight_in(options, 0), 0.0);
  EXPECT_EQ(centroid_weight_in(options, 100), 1.0);
  EXPECT_EQ(centroid_weight_in(options, 999), 1.0);
  EXPECT_EQ(centroid_weight_in({.pseudo_round = 0}, 0), 1.0);
}

// spec: baselines 16
TEST(RoflRules, KeepsTheWholeBatchWithoutForgetting) {
  for (const std::int64_t batch : {1, 7, 50}) {
    EXPECT_EQ(kept_of(batch, 0.0), batch);
  }
  EXPECT_THAT(chosen({3, 1, 2}, 3), ElementsAre(1, 1, 1));
}

TEST(RoflRules, KeepsTheRoundedDownShareButNeverNothing) {
  EXPECT_EQ(kept_of(50, 0.2), 40);
  EXPECT_EQ(kept_of(10, 0.2), 8);
  EXPECT_EQ(kept_of(7, 0.2), 5);
  EXPECT_EQ(kept_of(1, 0.2), 1);
  EXPECT_EQ(kept_of(3, 1.0), 1);
}

TEST(RoflRules, ChoosesTheSmallestLossesAndOfEqualOnesTheFirst) {
  EXPECT_THAT(chosen({.2F, 1.5F, .3F, .9F}, 2), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(chosen({1, 1, 1, 0}, 2), ElementsAre(1, 0, 0, 1));
}

TEST(RoflRules, TheNearestCentroidHasTheLargestCosine) {
  const at::Tensor centroids = rows({1, 0, 0, 100, -1, -1}, 2);
  EXPECT_THAT(numbers_of(nearest(rows({.3F, .1F, 1, 2, -5, -4}, 2), centroids)),
              ElementsAre(0, 1, 2));
}

TEST(RoflRules, ClassMeansAreZeroForAnAbsentClass) {
  const at::Tensor means = class_means(rows({1, 2, 3, 4, 5, 6}, 2), labels({2, 0, 2}), 3);
  EXPECT_THAT(values_of(means), ElementsAre(3, 4, 0, 0, 3, 4));
}

// spec: baselines 16
TEST(RoflRules, CentroidsMoveByTheSquaredCosine) {
  const at::Tensor next =
      moved(rows({1, 0, 0, 1}, 2), rows({1, 1, 0, 2}, 2), labels({0, 1}), mask({1, 1}));
  EXPECT_THAT(values_of(next), ElementsAre(FloatNear(1, 1e-6F), FloatNear(.5, 1e-6F),
                                           FloatNear(0, 1e-6F), FloatNear(2, 1e-6F)));
}

TEST(RoflRules, OnlyKeptSamplesMoveACentroid) {
  const at::Tensor centroids = rows({1, 0, 0, 1}, 2);
  const at::Tensor features = rows({2, 0, 9, 9, 4, 0, 0, 7}, 2);
  const at::Tensor next = moved(centroids, features, labels({0, 0, 0, 1}), mask({1, 0, 1, 0}));
  EXPECT_THAT(values_of(next), ElementsAre(3, 0, 0, 1)) << "class 1 has no kept sample";
}

TEST(RoflRules, ACentroidOfZerosTakesTheMeanOfItsFirstSamples) {
  const at::Tensor next =
      moved(rows({0, 0, 0, 0}, 2), rows({2, 4, 4, 4}, 2), labels({0, 0}), mask({1, 1}));
  EXPECT_THAT(values_of(next), ElementsAre(3, 4, 0, 0));
}

// spec: baselines 16
TEST(RoflCentroidMean, WeighsByTheCosineWithTheOldCentroid) {
  CentroidMean mean({1, 0}, 1);
  mean.add(std::vector<float>{1, 0});
  mean.add(std::vector<float>{1, 1});
  mean.add(std::vector<float>{0, 1});
  EXPECT_THAT(mean.finish(), ElementsAre(FloatNear(1, 1e-6F), FloatNear(.414214F, 1e-6F)));
}

// spec: baselines 16
TEST(RoflCentroidMean, KeepsTheOldCentroidWhereTheWeightsCancel) {
  CentroidMean mean({1, 0, 0, 1}, 2);
  mean.add(std::vector<float>{1, 0, 3, 0});
  mean.add(std::vector<float>{-1, 0, 0, 2});
  EXPECT_THAT(mean.finish(), ElementsAre(1, 0, 0, 2));
}

TEST(RoflCentroidMean, IsThePlainMeanOfThoseThatKnowAClassBeforeTheFirstRound) {
  CentroidMean mean({0, 0, 0, 0, 0, 0}, 3);
  mean.add(std::vector<float>{1, 0, 5, 5, 0, 0});
  mean.add(std::vector<float>{3, 2, 0, 0, 0, 0});
  EXPECT_THAT(mean.finish(), ElementsAre(2, 1, 5, 5, 0, 0));
}

TEST(RoflOptions, AreTheSpecs) {
  Options options;
  Params params;
  declare(options, params);
  EXPECT_EQ(params.values(), (Json{{"forget_rate", 0.2},
                                   {"forget_rounds", 10},
                                   {"pseudo_round", 100},
                                   {"lambda_cen", 1.0},
                                   {"lambda_e", 0.8},
                                   {"literal", false}}));
  EXPECT_EQ(error_text([&] {
              params.read(Json{{"forget_rate", 1.5}}, "method");
            }),
            "method.forget_rate = 1.5: expected a number from 0 to 1 | share of every batch that "
            "is left out as noisy");
}

}  // namespace winnow::rofl::rules_test
