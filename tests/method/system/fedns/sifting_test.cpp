#include "winnow/method/system/fedns/sifting.h"

#include <gtest/gtest.h>

#include <vector>

namespace winnow::fedns::fedns_sifting_test {

ScoreTable table(const std::vector<std::optional<double>>& scores) {
  ScoreTable table;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    table[static_cast<std::int64_t>(i)] = scores[i];
  }
  return table;
}

using Clients = std::set<std::int64_t>;

// spec: input-noise F4
TEST(Sifting, SplitsTheWorkedScores) {
  const Sifting sifting = sift(table({3.1, 2.9, 3.3, 1.2, 1.0, 1.1, 0.9, 1.4}));
  EXPECT_EQ(sifting.noisy, (Clients{3, 4, 5, 6, 7}));
  ASSERT_TRUE(sifting.gap);
  EXPECT_NEAR(*sifting.gap, 3.10 - 1.12, 1e-12);
}

// spec: input-noise 1.3 #4
TEST(Sifting, AScoreThatIsNotFiniteIsNoisyAndLeftOut) {
  const Sifting sifting = sift(table({3.0, std::nullopt, 1.0, 3.1}));
  EXPECT_EQ(sifting.noisy, (Clients{1, 2}));
  EXPECT_NEAR(*sifting.gap, 2.05, 1e-12);
}

// spec: input-noise 1.3 #4
TEST(Sifting, EqualScoresAreAllClean) {
  for (const double score : {0.0, 2.5, -1e9}) {
    const Sifting sifting = sift(table({score, score, std::nullopt, score}));
    EXPECT_EQ(sifting.noisy, Clients{2});
    EXPECT_FALSE(sifting.gap);
  }
  EXPECT_FALSE(sift(table({1.0, 1.0 + 1e-13, 1.0})).gap) << "equal but for rounding";
  EXPECT_TRUE(sift(table({1.0, 1.0 + 1e-11, 1.0})).gap);
}

// spec: input-noise 1.3 #4
TEST(Sifting, FewerThanTwoFiniteScoresAreClean) {
  EXPECT_TRUE(sift({}).noisy.empty());
  EXPECT_TRUE(sift(table({4.0})).noisy.empty());
  const Sifting sifting = sift(table({4.0, std::nullopt, std::nullopt}));
  EXPECT_EQ(sifting.noisy, (Clients{1, 2}));
  EXPECT_FALSE(sifting.gap);
}

TEST(Sifting, TwoDifferentScoresAreOneEach) {
  EXPECT_EQ(sift(table({4.0, 3.0})).noisy, Clients{1});
}

// The documented weakness on uneven data: one clean client far out takes a group for itself.
TEST(Sifting, AnOutlierTakesAGroupForItself) {
  std::vector<std::optional<double>> scores(20, 12.0);
  for (std::size_t i = 0; i < 5; ++i) {
    scores[i] = 19.0;
  }
  scores[0] = 59.0;
  EXPECT_EQ(sift(table(scores)).noisy.size(), 19U);
}

}  // namespace winnow::fedns::fedns_sifting_test
