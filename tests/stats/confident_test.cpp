#include "winnow/stats/confident.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/random.h"

namespace winnow::confident_test {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

// Rows of probabilities with a given label each.
struct Sample {
  std::vector<float> p;
  std::int64_t given = 0;
};

std::vector<Sample> random_samples(std::uint64_t seed, std::size_t count, std::size_t classes) {
  Stream stream(seed, "samples");
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<float> p;
    for (const double share : stream.dirichlet(0.5, classes)) {
      p.push_back(static_cast<float>(share));
    }
    samples.push_back({p, static_cast<std::int64_t>(stream.below(classes))});
  }
  return samples;
}

// spec: audit 8 #1
TEST(Confident, ASampleCountsForTheLikeliestClassWhoseThresholdItReaches) {
  const std::vector<double> high{.6, .5, .7};
  const std::vector<float> first{.65F, .30F, .05F};
  const std::vector<float> second{.55F, .40F, .05F};
  EXPECT_EQ(confident_class(first, high), 0);
  EXPECT_EQ(confident_class(second, high), -1);
  JointCounts counts(3);
  counts.add(1, confident_class(first, high));
  counts.add(1, confident_class(second, high));
  EXPECT_EQ(counts.at(1, 0), 1);
  EXPECT_EQ(counts.total(), 1);
  const std::vector<double> low{.45, .5, .7};
  const std::vector<float> both{.48F, .51F, .01F};
  EXPECT_EQ(confident_class(both, low), 1);
}

// spec: audit 8 #2
TEST(Confident, SumsOverClientsAreThoseOverTheirUnion) {
  const std::vector<Sample> samples = random_samples(5, 400, 4);
  ThresholdSums whole(4);
  ThresholdSums parts(4);
  ThresholdSums second(4);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    whole.add(samples[i].p, samples[i].given);
    (i % 3 == 0 ? parts : second).add(samples[i].p, samples[i].given);
  }
  parts += second;
  EXPECT_EQ(parts.thresholds(), whole.thresholds());
  EXPECT_EQ(parts.samples(), whole.samples());
  const std::vector<double> thresholds = whole.thresholds();
  JointCounts all(4);
  JointCounts left(4);
  JointCounts right(4);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::int64_t counted = confident_class(samples[i].p, thresholds);
    all.add(samples[i].given, counted);
    (i % 3 == 0 ? left : right).add(samples[i].given, counted);
  }
  left += right;
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      EXPECT_EQ(left.at(i, j), all.at(i, j));
    }
  }
}

TEST(Confident, AClassThatNobodyWasGivenHasNoThreshold) {
  ThresholdSums sums(2);
  sums.add(std::vector<float>{.25F, .75F}, 1);
  EXPECT_THAT(sums.thresholds(), ElementsAre(std::numeric_limits<double>::infinity(), .75));
  EXPECT_EQ(confident_class(std::vector<float>{.9F, .1F}, sums.thresholds()), -1);
}

TEST(Confident, TheJointIsScaledToTheSamplesThatWereGivenEachLabel) {
  JointCounts counts(3);
  for (int n = 0; n < 3; ++n) {
    counts.add(0, 0);
  }
  counts.add(0, 1);
  const std::vector<std::int64_t> given{8, 4, 0};
  const std::vector<double> joint = calibrated_joint(counts, given);
  // Row 0: 3 of 4 and 1 of 4, of 8 of 12 samples. Row 1 has no counts.
  EXPECT_THAT(joint, ElementsAre(DoubleNear(.5, 1e-12), DoubleNear(1.0 / 6, 1e-12), 0.0, 0.0,
                                 DoubleNear(1.0 / 3, 1e-12), 0.0, 0.0, 0.0, 0.0));
  EXPECT_NEAR(noise_rate(joint, 3), 1.0 / 6, 1e-12);
}

TEST(Confident, TheLabelScoreIsTheMarginBroughtToOne) {
  const std::vector<float> p{.7F, .2F, .1F};
  EXPECT_NEAR(label_score(p, 0), .75, 1e-6);
  EXPECT_NEAR(label_score(p, 1), .25, 1e-6);
  EXPECT_NEAR(label_score(p, 2), .2, 1e-6);
}

// Brown, Cai and DasGupta, Interval Estimation for a Binomial Proportion: 0 of 10 gives [0, .278].
TEST(Confident, WilsonsIntervalIsThatOfTheBooks) {
  EXPECT_NEAR(wilson(0.0, 10).high, .2775, 5e-5);
  EXPECT_EQ(wilson(0.0, 10).low, 0.0);
  EXPECT_NEAR(wilson(.5, 10).low, .2366, 5e-5);
  EXPECT_NEAR(wilson(.5, 10).high, .7634, 5e-5);
  EXPECT_EQ(wilson(0.0, 0).high, 1.0);
}

TEST(Confident, ClassesThatDoNotFitAreABug) {
  ThresholdSums sums(2);
  EXPECT_THROW(sums.add(std::vector<float>{.5F, .25F, .25F}, 0), Error);
  EXPECT_THROW(sums.add(std::vector<float>{.5F, .5F}, 2), Error);
  JointCounts counts(2);
  EXPECT_THROW(counts.add(0, 2), Error);
  EXPECT_THROW(counts += JointCounts(3), Error);
}

TEST(Confident, SumsComeBackFromTheirNumbersAndClassesCanBeTakenOut) {
  ThresholdSums sums(3);
  for (const Sample& sample : random_samples(5, 200, 3)) {
    sums.add(sample.p, sample.given);
  }
  sums.add(0.25, 1);
  ThresholdSums copy(sums.samples(), sums.sums());
  EXPECT_EQ(copy.samples(), sums.samples());
  EXPECT_EQ(copy.thresholds(), sums.thresholds()) << "to the last bit";
  copy.forget(1);
  EXPECT_EQ(copy.samples()[1], 0);
  EXPECT_EQ(copy.thresholds()[1], std::numeric_limits<double>::infinity());
  EXPECT_EQ(copy.thresholds()[0], sums.thresholds()[0]);
}

}  // namespace winnow::confident_test
