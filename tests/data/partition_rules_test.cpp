#include "winnow/data/partition_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "winnow/base/error.h"

namespace winnow::partition_rules_test {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

TEST(CutCounts, TruncatesTheCumulativeSharesAndGivesTheRestToTheLast) {
  EXPECT_THAT(cut_counts(std::vector{0.25, 0.35, 0.40}, 10), ElementsAre(2, 4, 4));
  EXPECT_THAT(cut_counts(std::vector{0.0, 0.46666667, 0.53333333}, 10), ElementsAre(0, 4, 6));
  EXPECT_THAT(cut_counts(std::vector{1.0 / 3, 1.0 / 3, 1.0 / 3}, 7), ElementsAre(2, 2, 3));
  EXPECT_THAT(cut_counts(std::vector{1.0}, 7), ElementsAre(7));
  EXPECT_THAT(cut_counts(std::vector{0.5, 0.5}, 0), ElementsAre(0, 0));
}

TEST(CutCounts, SumToTheCountAndNeverGoNegative) {
  Stream stream(3, "cut counts");
  for (int i = 0; i < 500; ++i) {
    const auto count = static_cast<std::int64_t>(stream.below(1000));
    const auto shares = stream.dirichlet(0.3, 1 + stream.below(50));
    const auto counts = cut_counts(shares, count);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), count);
    EXPECT_GE(std::ranges::min(counts), 0);
  }
}

TEST(CapShares, TakesAFullClientOutAndScalesTheRest) {
  std::vector<double> shares{0.25, 0.35, 0.40};
  ASSERT_TRUE(cap_shares(shares, std::vector<std::int64_t>{10, 9, 0}, 30));
  EXPECT_THAT(shares, ElementsAre(0.0, DoubleNear(0.46666667, 1e-8), DoubleNear(0.53333333, 1e-8)));
  EXPECT_THAT(cut_counts(shares, 10), ElementsAre(0, 4, 6));
}

TEST(CapShares, ComparesWithTheRealMean) {
  std::vector<double> shares{0.5, 0.5};
  ASSERT_TRUE(cap_shares(shares, std::vector<std::int64_t>{3, 4}, 7));  // the mean is 3.5
  EXPECT_THAT(shares, ElementsAre(1.0, 0.0));
}

TEST(CapShares, SaysWhenNothingIsLeft) {
  std::vector<double> shares{1.0, 0.0};
  EXPECT_FALSE(cap_shares(shares, std::vector<std::int64_t>{5, 0}, 10));
}

TEST(Scatter, FollowsTheSharesIndependently) {
  Stream stream(1, "scatter");
  const auto chosen = scatter(stream, std::vector{0.5, 0.5}, 10000);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(chosen, 0U)), 5000.0, 200.0);
}

TEST(Scatter, NeverChoosesAShareOfZero) {
  Stream stream(1, "scatter");
  for (const std::size_t client : scatter(stream, std::vector{0.0, 0.7, 0.0, 0.3, 0.0}, 10000)) {
    EXPECT_TRUE(client == 1 || client == 3);
  }
}

TEST(Membership, EveryClientHasAClassAndEveryClassAClient) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Stream stream(seed, "membership");
    const Membership member = draw_membership(stream, 4, 10, 0.3);
    for (const auto& row : member) {
      EXPECT_TRUE(std::ranges::any_of(row, std::identity()));
    }
    for (std::size_t c = 0; c < 10; ++c) {
      EXPECT_TRUE(std::ranges::any_of(member, [c](const auto& row) { return bool{row[c]}; }));
    }
  }
}

TEST(Membership, HoldsAsManyClassesAsExpected) {
  for (const auto& [p, expected] : {std::pair{0.7, 7.00004}, {0.3, 3.08721}}) {
    Stream stream(1, "membership");
    double sum = 0.0;
    for (const auto& row : draw_membership(stream, 50000, 10, p)) {
      sum += static_cast<double>(std::ranges::count(row, true)) / 50000.0;
    }
    EXPECT_NEAR(sum, expected, 4 * 1.45 / std::sqrt(50000.0));
  }
}

TEST(AssignMembers, GivesAClientOnlyItsClasses) {
  std::vector<std::int64_t> labels(5000);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::int64_t>(i % 10);
  }
  Stream stream(5, "members");
  const Membership member = draw_membership(stream, 20, 10, 0.3);
  const Assignment assign = assign_members(stream, member, indices_by_class(labels, 10), 1.0);
  std::size_t held = 0;
  for (std::size_t k = 0; k < assign.size(); ++k) {
    held += assign[k].size();
    for (const std::int64_t i : assign[k]) {
      EXPECT_TRUE(member[k][static_cast<std::size_t>(labels[static_cast<std::size_t>(i)])]);
    }
  }
  EXPECT_EQ(held, labels.size());
}

TEST(Membership, AHopelessProbabilityIsAnError) {
  Stream stream(1, "membership");
  try {
    draw_membership(stream, 2, 2, 1e-12);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("p = 1e-12: a client got no class in 100000"));
  }
}

}  // namespace winnow::partition_rules_test
