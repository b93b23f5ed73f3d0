#include "winnow/stats/mixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/random.h"

namespace winnow::mixture_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr MixtureOptions kCorr{.tol = 1e-3, .reg = 1e-6, .max_iter = 100};  // FedCorr
constexpr MixtureOptions kNeighbours{
    .tol = 1e-2, .reg = 5e-4, .max_iter = 100};  // FedRN, DivideMix

std::vector<std::size_t> noisy(const Mixture& mixture) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < mixture.labels.size(); ++i) {
    if (mixture.labels[i] == 1) {
      result.push_back(i);
    }
  }
  return result;
}

void expect_near(std::span<const double> values, const std::vector<double>& expected,
                 double tolerance = 1e-6) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance) << "at " << i;
  }
}

std::string error_text(const std::vector<double>& values, const MixtureOptions& options = {}) {
  try {
    gmm2(values, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    return error.what();
  }
  return "no error";
}

std::vector<double> two_bumps(std::uint64_t seed, std::size_t n) {
  Stream stream(seed, "mixture test");
  std::vector<double> values(n);
  for (double& value : values) {
    value = stream.bernoulli(0.3) ? 2.0 + 0.5 * stream.normal() : 0.3 * stream.normal();
  }
  return values;
}

// spec: label-noise 0.3 G1
TEST(Mixture, SeparatesTwoClearGroups) {
  const Mixture result =
      gmm2(std::vector{10.1, 10.4, 9.8, 10.0, 10.3, 13.9, 14.6, 15.2, 12.9, 14.1}, kCorr);
  expect_near(result.means, {10.11999972, 14.13999528});
  expect_near(result.variances, {0.04560098, 0.58641820});
  expect_near(result.weights, {0.49999938, 0.50000062});
  EXPECT_EQ(result.iterations, 2);
  EXPECT_NEAR(result.lower_bound, -1.20668492, 1e-6);
  EXPECT_THAT(result.labels, ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 1, 1));
}

// spec: label-noise 0.3 G2
TEST(Mixture, MovesAnItemAcrossTheStartingSplit) {
  const Mixture result = gmm2(std::vector{1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 2.0, 2.4, 2.8, 3.6}, kCorr);
  expect_near(result.means, {1.24528915, 2.62480500});
  expect_near(result.variances, {0.02865681, 0.42670376});
  expect_near(result.weights, {0.57614778, 0.42385222});
  EXPECT_EQ(result.iterations, 7);
  EXPECT_NEAR(result.lower_bound, -0.80334475, 1e-6);
  expect_near(result.clean_posterior, {0.97589694, 0.98224949, 0.98201948, 0.97495437, 0.95246281,
                                       0.88162033, 0.00040013, 0.0, 0.0, 0.0});
  EXPECT_THAT(noisy(result), ElementsAre(6, 7, 8, 9));
}

// spec: label-noise 0.3 G3
TEST(Mixture, StopsEarlyWithTheCoarseTolerance) {
  const Mixture result =
      gmm2(std::vector{0.0, .02, .03, .05, .06, .10, .45, .60, .80, 1.0}, kNeighbours);
  expect_near(result.means, {0.04328947, 0.71100204});
  expect_near(result.variances, {0.00152064, 0.04432938});
  expect_near(result.weights, {0.59906322, 0.40093678});
  EXPECT_EQ(result.iterations, 2);
  expect_near(result.clean_posterior, {.99923399, .99932161, .99929783, .99909001, .99886066,
                                       .99473365, 0.0, 0.0, 0.0, 0.0});
}

// spec: label-noise 0.3 G4
TEST(Mixture, MovesAnItemWithTheCoarseToleranceToo) {
  const Mixture result =
      gmm2(std::vector{0.0, .01, .02, .02, .03, .04, .05, .30, .55, .70, .85, 1.0}, kNeighbours);
  expect_near(result.means, {0.02427536, 0.67737072});
  expect_near(result.variances, {0.00075290, 0.06057269});
  expect_near(result.weights, {0.58164664, 1.0 - 0.58164664});
  EXPECT_EQ(result.iterations, 7);
  EXPECT_NEAR(result.lower_bound, 0.78563652, 1e-6);
  EXPECT_THAT(noisy(result), ElementsAre(7, 8, 9, 10, 11));
}

// spec: label-noise 0.3 GW
TEST(Mixture, CallsAValueBelowTheCleanOnesNoisyWhenTheWideComponentWins) {
  const Mixture result = gmm2(std::vector{.49, .50, .51, .50, .49, .51, .50, .495, .505, .50, .498,
                                          .502, .497, .503, .40, .80, 1.20, 1.60, 2.00},
                              kCorr);
  expect_near(result.means, {0.49999951, 1.19309856});
  EXPECT_THAT(noisy(result), ElementsAre(14, 15, 16, 17, 18));
}

// spec: baselines 24
TEST(Mixture, FitsTheDivideMixExample) {
  const Mixture result = gmm2(std::vector{0.0, .1, .2, .3, .8, .9, 1.0}, kNeighbours);
  expect_near(result.means, {.15, .9});
  expect_near(result.variances, {.013, .0071666667});
  expect_near(result.weights, {4.0 / 7.0, 3.0 / 7.0});
  EXPECT_EQ(result.iterations, 2);
  expect_near(result.clean_posterior, {1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0}, 1e-4);
}

// spec: label-noise A.7 #7
TEST(Mixture, SplitsClientsByCumulativeLid) {
  EXPECT_THAT(noisy(gmm2(std::vector{4.0, 4.2, 5.9, 4.1, 6.3, 4.3}, kCorr)), ElementsAre(2, 4));
  EXPECT_THAT(noisy(gmm2(std::vector{3.0, 3.1, 4.4, 4.2, 4.6, 3.2}, kCorr)), ElementsAre(2, 3, 4));
  const Mixture both = gmm2(std::vector{7.0, 7.3, 10.3, 8.3, 10.9, 7.5}, kCorr);
  EXPECT_THAT(noisy(both), ElementsAre(2, 4));
  expect_near(both.means, {7.52500009, 10.60000002});
}

// spec: label-noise A.7 #8
TEST(Mixture, FindsTheNoisySamplesAmongLosses) {
  const Mixture result =
      gmm2(std::vector{1.47, 1.48, 1.49, 1.50, 1.52, 1.55, 2.30, 2.40, 2.42, 2.45}, kCorr);
  expect_near(result.means, {1.50166667, 2.39250000});
  EXPECT_THAT(noisy(result), ElementsAre(6, 7, 8, 9));
}

TEST(Mixture, CallsDegenerateInputAllClean) {
  for (const std::vector<double>& values :
       {std::vector<double>{}, {3.5}, {2.0, 2.0, 2.0}, {1.0, 1.0 + 5e-13}}) {
    const Mixture result = gmm2(values, kCorr);
    EXPECT_THAT(result.clean_posterior, SizeIs(values.size()));
    EXPECT_THAT(result.clean_posterior, Each(1.0));
    EXPECT_THAT(result.labels, SizeIs(values.size()));
    EXPECT_THAT(result.labels, Each(0));
    EXPECT_EQ(result.iterations, 0);
    EXPECT_EQ(result.weights, (std::array{1.0, 0.0}));
    EXPECT_EQ(result.means[0], values.empty() ? 0.0 : values[0]);
  }
}

TEST(Mixture, FitsTwoValues) {
  const Mixture result = gmm2(std::vector{4.0, 1.0}, kCorr);
  expect_near(result.means, {1.0, 4.0});
  expect_near(result.weights, {0.5, 0.5});
  EXPECT_THAT(result.labels, ElementsAre(1, 0));
}

TEST(Mixture, RecoversTheParametersThatMadeTheData) {
  const Mixture result = gmm2(two_bumps(1, 20000), {.tol = 1e-6, .reg = 1e-6, .max_iter = 500});
  expect_near(result.means, {0.0, 2.0}, 0.03);
  expect_near(result.variances, {0.09, 0.25}, 0.02);
  expect_near(result.weights, {0.7, 0.3}, 0.02);
}

TEST(Mixture, StopsAtTheLargestNumberOfIterations) {
  const std::vector<double> values = two_bumps(2, 200);
  EXPECT_EQ(gmm2(values, {.tol = 0.0, .reg = 1e-6, .max_iter = 3}).iterations, 3);
  EXPECT_EQ(gmm2(values, {.tol = 1e9, .reg = 1e-6, .max_iter = 3}).iterations, 2)
      << "the first change is infinite";
}

TEST(Mixture, NeverLowersTheLowerBound) {
  const std::vector<double> values = two_bumps(3, 300);
  double previous = -std::numeric_limits<double>::infinity();
  for (int iterations = 1; iterations <= 20; ++iterations) {
    const double bound =
        gmm2(values, {.tol = 0.0, .reg = 1e-12, .max_iter = iterations}).lower_bound;
    EXPECT_GE(bound, previous - 1e-12);
    previous = bound;
  }
}

TEST(Mixture, FollowsThePermutationOfItsInput) {
  const std::vector<double> values = two_bumps(4, 150);
  const Mixture straight = gmm2(values, kCorr);
  Stream stream(4, "mixture test order");
  const std::vector<std::int64_t> order = stream.permutation(150);
  std::vector<double> moved;
  for (const std::int64_t i : order) {
    moved.push_back(values[static_cast<std::size_t>(i)]);
  }
  const Mixture result = gmm2(moved, kCorr);
  expect_near(result.means, {straight.means[0], straight.means[1]}, 1e-10);
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const auto from = static_cast<std::size_t>(order[i]);
    EXPECT_NEAR(result.clean_posterior[i], straight.clean_posterior[from], 1e-10);
    EXPECT_EQ(result.labels[i], straight.labels[from]);
  }
}

TEST(Mixture, KeepsThePosteriorsUnderScaleAndShift) {
  const std::vector<double> values = two_bumps(5, 150);
  const Mixture straight = gmm2(values, kCorr);
  for (const double scale : {0.01, 40.0}) {
    std::vector<double> moved;
    for (const double value : values) {
      moved.push_back(scale * value + 3.0);
    }
    const Mixture result = gmm2(moved, {.tol = 1e-3, .reg = 1e-6 * scale * scale});
    EXPECT_EQ(result.iterations, straight.iterations);
    expect_near(result.means, {scale * straight.means[0] + 3.0, scale * straight.means[1] + 3.0},
                1e-9 * scale);
    expect_near(result.clean_posterior, straight.clean_posterior, 1e-9);
    EXPECT_EQ(result.labels, straight.labels);
  }
}

TEST(Mixture, SurvivesAnExtremeOutlier) {
  const Mixture result = gmm2(std::vector{1.0, 1.1, 0.9, 1.05, 1e12}, kCorr);
  EXPECT_THAT(noisy(result), ElementsAre(4));
  EXPECT_TRUE(std::isfinite(result.lower_bound));
}

TEST(Mixture, RefusesValuesThatAreNotFinite) {
  EXPECT_EQ(error_text({1.0, std::nan(""), 2.0}),
            "gmm2: value 1 of 3 is nan, expected finite values");
  EXPECT_EQ(error_text({std::numeric_limits<double>::infinity()}),
            "gmm2: value 0 of 1 is inf, expected finite values");
}

TEST(Mixture, RefusesOptionsOutOfRange) {
  EXPECT_EQ(error_text({1.0, 2.0}, {.tol = 1e-3, .reg = 0.0, .max_iter = 100}),
            "gmm2: tol 0.001, reg 0, max_iter 100, expected tol >= 0, reg > 0 and max_iter >= 1");
  EXPECT_NE(error_text({1.0, 2.0}, {.tol = -1.0}), "no error");
  EXPECT_NE(error_text({1.0, 2.0}, {.tol = 0.0, .reg = 1e-6, .max_iter = 0}), "no error");
}

}  // namespace winnow::mixture_test
