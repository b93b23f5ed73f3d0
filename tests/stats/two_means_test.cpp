#include "winnow/stats/two_means.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/random.h"

namespace winnow::two_means_test {

using ::testing::ElementsAre;

std::string error_text(std::span<const double> values) {
  try {
    two_means(values);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    return error.what();
  }
  return "no error";
}

// The least inertia over all ways to cut the values in two groups, by subsets.
double least_inertia(const std::vector<double>& values) {
  double best = std::numeric_limits<double>::infinity();
  for (unsigned set = 1; set + 1 < (1U << values.size()); ++set) {
    double inertia = 0.0;
    for (const unsigned side : {0U, 1U}) {
      std::vector<double> group;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (((set >> i) & 1U) == side) {
          group.push_back(values[i]);
        }
      }
      const double mean =
          std::accumulate(group.begin(), group.end(), 0.0) / static_cast<double>(group.size());
      for (const double value : group) {
        inertia += (value - mean) * (value - mean);
      }
    }
    best = std::min(best, inertia);
  }
  return best;
}

// spec: input-noise F4
TEST(TwoMeans, SplitsTheScoresOfTheWorkedExample) {
  const std::vector<double> scores{3.1, 2.9, 3.3, 1.2, 1.0, 1.1, 0.9, 1.4};
  const TwoMeans result = two_means(scores);
  EXPECT_EQ(result.split, 5U);
  EXPECT_NEAR(result.inertia, 0.228, 1e-12);
  EXPECT_NEAR(result.centres[0], 1.12, 1e-12);
  EXPECT_NEAR(result.centres[1], 3.10, 1e-12);
  EXPECT_THAT(result.labels, ElementsAre(1, 1, 1, 0, 0, 0, 0, 0));
}

// spec: label-noise 0.3, the starts named in G2 and G4
TEST(TwoMeans, GivesTheStartsOfTheMixtureExamples) {
  EXPECT_EQ(two_means(std::vector{1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 2.0, 2.4, 2.8, 3.6}).split, 7U);
  EXPECT_EQ(
      two_means(std::vector{0.0, .01, .02, .02, .03, .04, .05, .30, .55, .70, .85, 1.0}).split, 8U);
}

TEST(TwoMeans, TakesTheSmallerLowerGroupOnTies) {
  EXPECT_THAT(two_means(std::vector{2.0, 0.0, 1.0}).labels, ElementsAre(1, 0, 1));
  EXPECT_EQ(two_means(std::vector{0.0, 1.0, 2.0, 3.0, 4.0}).split, 2U);
}

TEST(TwoMeans, KeepsTheTieWhenRoundingHidesIt) {
  for (const double scale : {0.1, 0.3, 1e-9, 7e6}) {
    for (const double shift : {0.0, 0.7, -12.3}) {
      std::vector<double> values{0.0, 1.0, 2.0, 3.0, 4.0};
      for (double& value : values) {
        value = scale * (value + shift);
      }
      EXPECT_EQ(two_means(values).split, 2U) << scale << " " << shift;
    }
  }
}

TEST(TwoMeans, CutsTwoValuesAndEqualValuesAfterTheFirst) {
  EXPECT_THAT(two_means(std::vector{5.0, -1.0}).labels, ElementsAre(1, 0));
  const TwoMeans equal = two_means(std::vector{0.1, 0.1, 0.1});
  EXPECT_THAT(equal.labels, ElementsAre(0, 1, 1));
  EXPECT_NEAR(equal.inertia, 0.0, 1e-30);
}

TEST(TwoMeans, NeverSeparatesEqualValuesWhenOthersDiffer) {
  const TwoMeans result = two_means(std::vector{1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.5, 1.5});
  EXPECT_EQ(result.labels[6], result.labels[7]);
}

TEST(TwoMeans, FindsTheLeastInertiaOfAllPartitions) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Stream stream(seed, "two_means test");
    std::vector<double> values(2 + seed % 8);
    for (double& value : values) {
      value = stream.normal();
    }
    EXPECT_NEAR(two_means(values).inertia, least_inertia(values), 1e-12) << "seed " << seed;
  }
}

TEST(TwoMeans, FollowsThePermutationOfItsInput) {
  Stream stream(3, "two_means test");
  std::vector<double> values(101);
  for (double& value : values) {
    value = stream.uniform();
  }
  const TwoMeans straight = two_means(values);
  const std::vector<std::int64_t> order = stream.permutation(101);
  std::vector<double> moved;
  for (const std::int64_t i : order) {
    moved.push_back(values[static_cast<std::size_t>(i)]);
  }
  const TwoMeans result = two_means(moved);
  EXPECT_EQ(result.centres, straight.centres);
  EXPECT_EQ(result.inertia, straight.inertia);
  for (std::size_t i = 0; i < moved.size(); ++i) {
    EXPECT_EQ(result.labels[i], straight.labels[static_cast<std::size_t>(order[i])]);
  }
}

TEST(TwoMeans, RefusesTooFewValuesAndValuesThatAreNotFinite) {
  EXPECT_EQ(error_text({}), "two_means: 0 values, expected at least 2");
  EXPECT_EQ(error_text(std::vector{1.0}), "two_means: 1 values, expected at least 2");
  EXPECT_EQ(error_text(std::vector{1.0, 2.0, std::nan("")}),
            "two_means: value 2 of 3 is nan, expected finite values");
}

}  // namespace winnow::two_means_test
