#include "winnow/federation/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>

namespace winnow::selection_test {

std::vector<std::int64_t> everybody(std::int64_t count) {
  std::vector<std::int64_t> pool(static_cast<std::size_t>(count));
  std::iota(pool.begin(), pool.end(), std::int64_t{0});
  return pool;
}

// spec: label-noise 0.4
TEST(Participants, AreCountedWithoutFloatingPointSurprises) {
  EXPECT_EQ(participants(0.29, 100), 29);  // 28.999999999999996 in doubles
  EXPECT_EQ(participants(0.57, 100), 57);
  EXPECT_EQ(participants(0.1, 100), 10);
  EXPECT_EQ(participants(0.2, 7), 1);
  EXPECT_EQ(participants(0.5, 3), 1);
  EXPECT_EQ(participants(0.999, 100), 99);
}

TEST(Participants, AreAtLeastOneAndAtMostAll) {
  EXPECT_EQ(participants(0.0, 100), 1);
  EXPECT_EQ(participants(0.001, 100), 1);
  EXPECT_EQ(participants(1.0, 100), 100);
  EXPECT_EQ(participants(1.5, 100), 100);
  EXPECT_EQ(participants(1.0, 1), 1);
}

TEST(SelectUniform, ChoosesDistinctMembersInAscendingOrder) {
  const std::vector<std::int64_t> pool{30, 4, 17, 8, 25, 11};
  for (std::int64_t round = 0; round < 100; ++round) {
    const auto chosen = select_uniform(pool, 4, 1, round);
    ASSERT_EQ(chosen.size(), 4U);
    EXPECT_EQ(std::set(chosen.begin(), chosen.end()).size(), 4U);
    EXPECT_TRUE(std::ranges::is_sorted(chosen));
    for (const std::int64_t client : chosen) {
      EXPECT_EQ(std::ranges::count(pool, client), 1);
    }
  }
}

TEST(SelectUniform, OfTheWholePoolIsThePool) {
  EXPECT_EQ(select_uniform(everybody(9), 9, 1, 3), everybody(9));
  EXPECT_TRUE(select_uniform(everybody(9), 0, 1, 3).empty());
}

TEST(SelectUniform, IsKeyedBySeedAndRound) {
  const auto pool = everybody(100);
  const auto chosen = select_uniform(pool, 10, 1, 0);
  EXPECT_EQ(chosen, select_uniform(pool, 10, 1, 0));
  EXPECT_NE(chosen, select_uniform(pool, 10, 1, 1));
  EXPECT_NE(chosen, select_uniform(pool, 10, 2, 0));
}

TEST(SelectUniform, IsFairOverManyRounds) {
  constexpr std::int64_t kRounds = 4000;
  const auto pool = everybody(20);
  std::map<std::int64_t, int> times;
  std::map<std::pair<std::int64_t, std::int64_t>, int> pairs;
  for (std::int64_t round = 0; round < kRounds; ++round) {
    const auto chosen = select_uniform(pool, 5, 12, round);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      ++times[chosen[i]];
      for (std::size_t j = i + 1; j < chosen.size(); ++j) {
        ++pairs[{chosen[i], chosen[j]}];
      }
    }
  }
  ASSERT_EQ(times.size(), 20U);
  for (const auto& [client, count] : times) {
    EXPECT_NEAR(count, 1000, 140) << client;  // deviation 27
  }
  ASSERT_EQ(pairs.size(), 190U);
  for (const auto& [pair, count] : pairs) {
    EXPECT_NEAR(count, 210.5, 75) << pair.first << " with " << pair.second;  // deviation 14
  }
}

}  // namespace winnow::selection_test
