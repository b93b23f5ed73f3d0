#include "winnow/method/clean_set.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "winnow/stats/min_max.h"

namespace winnow::clean_set_test {

using Numbers = std::vector<double>;
using Mask = std::vector<bool>;

constexpr double kTolerance = 1e-6;

void expect_near(const Numbers& values, const Numbers& expected, double tolerance = kTolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance) << "value " << i;
  }
}

const Numbers kG3{0, 0.02, 0.03, 0.05, 0.06, 0.10, 0.45, 0.60, 0.80, 1.0};
const Numbers kG4{0, 0.01, 0.02, 0.02, 0.03, 0.04, 0.05, 0.30, 0.55, 0.70, 0.85, 1.0};

// spec: label-noise B.8 #4, the examples of 0.3
TEST(FedRNCleanSet, ProbabilitiesOfTheWorkedMixtures) {
  expect_near(clean_probability(kG3),
              {0.99923399, 0.99932161, 0.99929783, 0.99909001, 0.99886066, 0.99473365, 0, 0, 0, 0});
  EXPECT_EQ(clean_mask(clean_probability(kG4), 0.5),
            (Mask{true, true, true, true, true, true, true, false, false, false, false, false}));
}

TEST(FedRNCleanSet, ProbabilitiesDoNotDependOnScaleOrOrigin) {
  for (const Numbers& example : {kG3, kG4}) {
    const Numbers plain = clean_probability(example);
    for (const auto& [scale, shift] :
         {std::pair(3.0, 0.0), std::pair(1.0, 2.0), std::pair(0.05, 0.7), std::pair(1e3, -4.0)}) {
      Numbers moved = example;
      for (double& value : moved) {
        value = scale * value + shift;
      }
      expect_near(clean_probability(moved), plain, 1e-9);
    }
  }
}

TEST(FedRNCleanSet, LossesThatSayNothingAreAllClean) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(clean_probability({0.7, 0.7, 0.7}), (Numbers{1, 1, 1}));
  EXPECT_EQ(clean_probability({0.7}), Numbers{1});
  EXPECT_EQ(clean_probability({0.1, kInfinity, 0.3}), (Numbers{1, 1, 1}));
  EXPECT_EQ(clean_probability({kNaN, 0.2}), (Numbers{1, 1}));
  EXPECT_TRUE(clean_probability({}).empty());
}

// spec: label-noise B.8 #2
TEST(FedRNCleanSet, JointProbabilityOfTheWorkedExample) {
  const Numbers weights = vote_weights(Numbers{0.64, 0.86748082, 0.75779368});
  const Numbers own{0.90, 0.40, 0.55, 0.10, 0.30};
  const Numbers joint = joint_probability(
      {own, {0.80, 0.70, 0.20, 0.05, 0.60}, {0.95, 0.60, 0.45, 0.20, 0.70}}, weights);
  expect_near(joint, {0.87843158, 0.58178944, 0.38251581, 0.11430525, 0.54869468});
  EXPECT_EQ(clean_mask(joint, 0.5), (Mask{true, true, false, false, true}));
  EXPECT_EQ(clean_mask(own, 0.5), (Mask{true, false, true, false, false}));
}

// spec: label-noise B.8 #3
TEST(FedRNCleanSet, WithoutNeighboursTheOwnVoteDecides) {
  const Numbers own{0.90, 0.40, 0.55};
  for (const double self : {0.64, 1.0, 0.0}) {
    const Numbers weights = vote_weights(Numbers{self});
    EXPECT_EQ(weights, Numbers{1.0});
    EXPECT_EQ(joint_probability({own}, weights), own);
  }
}

TEST(FedRNCleanSet, VotersThatAgreeDecideWhateverTheirWeights) {
  const Numbers same{0.90, 0.40, 0.55};
  for (const Numbers& reliability : {Numbers{1, 0, 0}, Numbers{0.2, 0.7, 0.4}, Numbers{0, 0, 0}}) {
    expect_near(joint_probability({same, same, same}, vote_weights(reliability)), same, 1e-12);
  }
}

TEST(FedRNCleanSet, WeightsAreSharesOfOne) {
  for (const Numbers& reliability :
       {Numbers{0.64, 0.86, 0.75}, Numbers{1}, Numbers{0, 0.3}, Numbers{1e-9, 1}}) {
    const Numbers weights = vote_weights(reliability);
    for (const double weight : weights) {
      EXPECT_GE(weight, 0.0);
    }
    EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1.0, 1e-12);
  }
  // spec: label-noise B.4 #13
  expect_near(vote_weights(Numbers{0, 0, 0}), {1.0 / 3, 1.0 / 3, 1.0 / 3}, 1e-12);
}

// spec: label-noise B.4 #10
TEST(FedRNCleanSet, ASampleMustBeAboveTheThreshold) {
  EXPECT_EQ(clean_mask(Numbers{0.5, 0.51, 0.49}, 0.5), (Mask{false, true, false}));
  EXPECT_EQ(clean_mask(Numbers{0.5, 0.51, 0.49}, 0.0), (Mask{true, true, true}));
}

TEST(FedRNCleanSet, AnEmptySetBecomesTheWholeSet) {
  EXPECT_EQ(clean_mask(Numbers{0.5, 0.2, 0.0}, 0.5), (Mask{true, true, true}));
  EXPECT_EQ(clean_mask(Numbers{1.0, 1.0}, 1.0), (Mask{true, true}));
  EXPECT_TRUE(clean_mask(Numbers{}, 0.5).empty());
}

TEST(FedRNCleanSet, SubsetKeepsSamplesAndLabelsTogether) {
  const std::vector<std::int64_t> samples{10, 20, 30, 40};
  const std::vector<std::int64_t> labels{1, 2, 3, 4};
  const Subset subset({samples, labels}, {false, true, false, true});
  const LocalSet set = subset.set();
  EXPECT_EQ(std::vector(set.samples.begin(), set.samples.end()),
            (std::vector<std::int64_t>{20, 40}));
  EXPECT_EQ(std::vector(set.labels.begin(), set.labels.end()), (std::vector<std::int64_t>{2, 4}));
}

}  // namespace winnow::clean_set_test
