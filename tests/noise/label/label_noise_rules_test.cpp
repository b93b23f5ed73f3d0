#include "winnow/noise/label/label_noise_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace winnow::label_noise_rules_test {

using ::testing::DoubleNear;
using ::testing::Each;

TEST(FedcorrLevel, RunsFromTauToOne) {
  EXPECT_DOUBLE_EQ(fedcorr_level(false, 0.5, 0.9), 0.0);
  EXPECT_DOUBLE_EQ(fedcorr_level(true, 0.5, 0.0), 0.5);
  EXPECT_DOUBLE_EQ(fedcorr_level(true, 0.5, 0.5), 0.75);
  EXPECT_DOUBLE_EQ(fedcorr_level(true, 1.0, 0.3), 1.0);
  EXPECT_DOUBLE_EQ(fedcorr_level(true, 0.0, 0.3), 0.3);
}

TEST(RampRate, NeverReachesTheTop) {
  EXPECT_DOUBLE_EQ(ramp_rate(0.0, 0.4, 0, 100), 0.0);
  EXPECT_DOUBLE_EQ(ramp_rate(0.0, 0.4, 99, 100), 0.396);
  EXPECT_DOUBLE_EQ(ramp_rate(0.0, 0.8, 99, 100), 0.792);
  EXPECT_DOUBLE_EQ(ramp_rate(0.3, 0.3, 7, 10), 0.3);
}

TEST(ExactShare, IsNotFooledByRounding) {
  EXPECT_EQ(exact_share(0.5, 100), 50);
  EXPECT_EQ(exact_share(0.29, 100), 29);  // 0.29 * 100 = 28.999999999999996
  EXPECT_EQ(exact_share(0.004 * 7, 500), 14);
  EXPECT_EQ(exact_share(0.35, 10), 3);
  EXPECT_EQ(exact_share(0.0, 10), 0);
  EXPECT_EQ(exact_share(1.0, 10), 10);
}

TEST(Pairflip, GoesToTheClassBeforeAndBackAfterAFullTurn) {
  EXPECT_EQ(pairflip(0, 10), 9);
  EXPECT_EQ(pairflip(0, 100), 99);
  EXPECT_EQ(pairflip(1, 10), 0);
  EXPECT_EQ(pairflip(9, 10), 8);
  for (std::int64_t label = 0; label < 10; ++label) {
    std::int64_t turned = label;
    for (int i = 0; i < 10; ++i) {
      turned = pairflip(turned, 10);
    }
    EXPECT_EQ(turned, label);
  }
}

TEST(OtherLabel, IsUniformOverTheOthers) {
  Stream stream(1, "other");
  std::vector<int> seen(5, 0);
  for (int i = 0; i < 40000; ++i) {
    ++seen[static_cast<std::size_t>(other_label(stream, 2, 5))];
  }
  EXPECT_EQ(seen[2], 0);
  for (const std::size_t label : {0U, 1U, 3U, 4U}) {
    EXPECT_NEAR(seen[label], 10000, 4 * 86.6);
  }
  EXPECT_EQ(other_label(stream, 0, 2), 1);
  EXPECT_EQ(other_label(stream, 1, 2), 0);
}

TEST(RedrawSome, HasTheSpreadOfABinomial) {
  // n = 500, level .75, 10 classes: wrong with chance .675.
  constexpr int kRuns = 2000;
  double sum = 0.0;
  double square = 0.0;
  for (int run = 0; run < kRuns; ++run) {
    Stream stream(1, "redraw", run);
    std::vector<std::int64_t> labels(500, 3);
    redraw_some(stream, labels, 0.75, 10);
    const auto wrong = static_cast<double>(500 - std::ranges::count(labels, 3));
    sum += wrong / kRuns;
    square += wrong * wrong / kRuns;
  }
  EXPECT_NEAR(sum, 337.5, 4 * 10.47 / std::sqrt(kRuns));
  EXPECT_NEAR(std::sqrt(square - sum * sum), 10.47, 4 * 10.47 / std::sqrt(2.0 * kRuns));
}

TEST(RedrawSome, LevelsZeroAndOneAreExact) {
  Stream stream(1, "redraw");
  std::vector<std::int64_t> labels(100, 3);
  EXPECT_EQ(redraw_some(stream, labels, 0.0, 10), 0);
  EXPECT_THAT(labels, Each(3));
  EXPECT_EQ(redraw_some(stream, labels, 1.0, 10), 100);
}

TEST(RedrawCount, PicksExactlySoManyDifferentSamples) {
  Stream stream(1, "redraw");
  std::vector<std::int64_t> labels(100, -1);
  EXPECT_EQ(redraw_count(stream, labels, 37, 10), 37);
  EXPECT_EQ(std::ranges::count(labels, -1), 63);
}

TEST(SymmetricRow, IsThatOfThePaper) {
  const auto own_and_other = [](std::int64_t classes, double mu) {
    const auto n = static_cast<std::size_t>(classes);
    for (std::size_t y = 0; y < n; ++y) {
      const auto row = symmetric_row(static_cast<std::int64_t>(y), classes, mu);
      EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1.0, 1e-12);
      for (std::size_t j = 0; j < n; ++j) {
        EXPECT_EQ(row[j], symmetric_row(static_cast<std::int64_t>(j), classes, mu)[y]);
      }
    }
    const auto first = symmetric_row(0, classes, mu);
    return std::pair(first[0], first[1]);
  };
  using ::testing::Pair;
  EXPECT_THAT(own_and_other(6, 0.5), Pair(0.5, DoubleNear(0.1, 1e-8)));
  EXPECT_THAT(own_and_other(6, 0.8), Pair(DoubleNear(0.2, 1e-8), DoubleNear(0.16, 1e-8)));
  EXPECT_THAT(own_and_other(10, 0.5), Pair(0.5, DoubleNear(0.05555556, 1e-8)));
  EXPECT_THAT(own_and_other(10, 0.8), Pair(DoubleNear(0.2, 1e-8), DoubleNear(0.08888889, 1e-8)));
}

// A context of one client.
LabelNoiseContext one_client(std::int64_t classes) {
  LabelNoiseContext context;
  context.classes = classes;
  context.federation = 1;
  context.clients = {0};
  context.where = "noise.0";
  return context;
}

TEST(ClipflLabels, DrawAsFromTheWholeMatrix) {
  std::vector<double> matrix;
  for (std::int64_t y = 0; y < 10; ++y) {
    const auto row = symmetric_row(y, 10, 0.4);
    matrix.insert(matrix.end(), row.begin(), row.end());
  }
  std::vector<std::int64_t> labels(1000);
  std::ranges::generate(labels, [i = 0]() mutable { return std::int64_t{i++ % 10}; });
  std::vector<std::int64_t> expected = labels;
  Stream stream(1, "noise", 0);
  draw_from_matrix(stream, expected, matrix, 10);

  ClipFLLabels rule;
  rule.rho = 1.0;
  rule.mu = 0.4;
  Stream choice(1, "noise-clients", 0);
  Stream again(1, "noise", 0);
  rule.plan(one_client(10), choice).front().corrupt({}, labels, again);
  EXPECT_EQ(labels, expected);
}

TEST(ClipflLabels, NeedNoTableOfAllPairsOfClasses) {
  ClipFLLabels rule;
  rule.rho = 1.0;
  rule.mu = 1.0;
  Stream choice(1, "noise-clients", 0);
  Stream stream(1, "noise", 0);
  std::vector<std::int64_t> labels(10, 3);
  // All pairs would be 8 TB.
  const auto noises = rule.plan(one_client(1'000'000), choice);
  EXPECT_EQ(noises.front().corrupt({}, labels, stream), 10);
}

TEST(DrawFromMatrix, FollowsTheRowOfEachLabel) {
  Stream stream(1, "matrix");
  const std::vector<double> matrix{0.0, 1.0, 0.25, 0.75};
  std::vector<std::int64_t> labels(20000, 1);
  std::fill_n(labels.begin(), 10000, 0);
  const std::int64_t changed = draw_from_matrix(stream, labels, matrix, 2);
  EXPECT_THAT(std::vector<std::int64_t>(labels.begin(), labels.begin() + 10000), Each(1));
  const auto zeros = std::ranges::count(labels, 0);
  EXPECT_NEAR(static_cast<double>(zeros), 2500.0, 4 * 43.3);
  EXPECT_EQ(changed, 10000 + zeros);
}

TEST(FednclGaussian, LevelsHaveTheChancesOfTheCutNormal) {
  LabelNoiseContext context;
  context.classes = 10;
  context.federation = 100000;
  context.clients.resize(100000);
  std::iota(context.clients.begin(), context.clients.end(), 0);
  Stream stream(1, "noise-clients", 0);
  double clean = 0.0;
  double full = 0.0;
  double mean = 0.0;
  for (const ClientNoise& noise : FedNCLGaussian{}.plan(context, stream)) {
    clean += noise.level == 0.0 ? 1e-5 : 0.0;
    full += noise.level == 1.0 ? 1e-5 : 0.0;
    mean += noise.level * 1e-5;
  }
  EXPECT_NEAR(clean, 0.22663, 4 * 0.00132);
  EXPECT_NEAR(full, 0.04006, 4 * 0.00062);
  EXPECT_NEAR(mean, 0.34600, 4 * 0.00095);
}

}  // namespace winnow::label_noise_rules_test
