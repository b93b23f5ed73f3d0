#include "winnow/method/noisy_label/focus/arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace winnow::focus::focus_credibility_test {

using testing::DoubleNear;
using testing::Pointwise;
using Values = std::vector<double>;

const Values kWorked{.9, 1.1, 3.5};  // .5 + .4, .6 + .5, 2 + 1.5
const Values kEqualSizes{1, 1, 1};

void expect_near(const Values& values, const Values& expected, double tolerance = 1e-6) {
  EXPECT_THAT(values, Pointwise(DoubleNear(tolerance), expected));
}

// spec: baselines 19
TEST(Credibility, GivesTheWorkedNumbers) {
  expect_near(credibility(kWorked, 1.0), {.936245, .922130, .141625});
  expect_near(credibility(kWorked, 0.1), {.698535, .692445, .609021});
}

TEST(CreditWeights, GiveTheWorkedNumbers) {
  expect_near(credit_weights(kEqualSizes, credibility(kWorked, 1.0)), {.468123, .461065, .070812});
  expect_near(credit_weights(kEqualSizes, credibility(kWorked, 0.1)), {.349267, .346222, .304510});
}

TEST(CreditWeights, MultiplySamplesAndCredibility) {
  expect_near(credit_weights(Values{10, 30}, Values{.9, .1}), {.75, .25}, 1e-15);
}

// spec: baselines 19: the sum is K - 1.
TEST(Credibility, SumsToOneLessThanTheClients) {
  const Values losses{.3, 2.2, .1, 5, 0, .7, .7};
  for (const double alpha : {0.0, 0.1, 1.0, 40.0}) {
    const Values values = credibility(losses, alpha);
    EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0), 6.0, 1e-12) << alpha;
    for (const double value : values) {
      EXPECT_GE(value, 0.0);
      EXPECT_LE(value, 1.0);
    }
  }
}

// spec: baselines 19: equal losses are FedAvg.
TEST(CreditWeights, OfEqualLossesAreTheSharesOfTheSamples) {
  expect_near(credit_weights(Values{100, 300, 600}, credibility(Values{2, 2, 2}, 1.0)),
              {.1, .3, .6}, 1e-15);
  expect_near(credit_weights(Values{100, 300, 600}, credibility(kWorked, 0.0)), {.1, .3, .6},
              1e-15);
}

// spec: baselines 19
TEST(Credibility, DoesNotSeeAConstantInAllLosses) {
  for (const double constant : {-0.5, 3.0, 1e6}) {
    Values moved = kWorked;
    for (double& value : moved) {
      value += constant;
    }
    expect_near(credibility(moved, 1.0), credibility(kWorked, 1.0), 1e-9);
  }
}

TEST(Credibility, SurvivesLossesThatOverflow) {
  expect_near(credibility(Values{1, 1e300}, 1e3), {1, 0}, 1e-15);
  expect_near(credibility(Values{1e300, 1e300}, 1.0), {.5, .5}, 1e-15);
}

TEST(Credibility, OfASingleClientIsNone) {
  EXPECT_EQ(credibility(Values{7}, 1.0), Values{0});
  EXPECT_EQ(credibility(Values{}, 1.0), Values{});
}

// spec: baselines T3
TEST(CreditedSamples, OfEqualCredibilityAreExactlyTheSamples) {
  const Values samples{7, 13, 100};
  EXPECT_EQ(credited_samples(samples, credibility(Values{.1, .1, .1}, 3.0)), samples);
  EXPECT_EQ(credited_samples(samples, credibility(kWorked, 0.0)), samples);
  EXPECT_EQ(credited_samples(samples, Values{0, 0, 0}), samples);
  EXPECT_EQ(credited_samples(Values{5, 0}, Values{0, 1}), (Values{5, 0})) << "nothing else is left";
  EXPECT_EQ(credited_samples(Values{10, 30}, Values{.8, .2}), (Values{10, 7.5}));
}

TEST(CreditWeights, OfASingleClientAreOne) {
  EXPECT_EQ(credit_weights(Values{12}, Values{0}), Values{1});
}

TEST(CreditWeights, OfNoSamplesAreZero) {
  EXPECT_EQ(credit_weights(Values{0, 0}, Values{.5, .5}), (Values{0, 0}));
}

TEST(LossesBefore, FillGapsWithTheMean) {
  const std::vector<std::int64_t> clients{1, 4, 6};
  EXPECT_EQ(losses_before(clients, {{1, 2.0}, {6, 3.0}, {9, 50.0}}), (Values{2.0, 2.5, 3.0}));
  EXPECT_EQ(losses_before(clients, {}), (Values{0, 0, 0}));
}

}  // namespace winnow::focus::focus_credibility_test
