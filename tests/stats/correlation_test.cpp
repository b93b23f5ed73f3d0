#include "winnow/stats/correlation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/random.h"

namespace winnow::correlation_test {

using ::testing::DoubleNear;
using ::testing::Optional;

std::string error_text(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    return error.what();
  }
  return "no error";
}

TEST(Pearson, MatchesAValueWorkedByHand) {
  // deviations (-1.5 -.5 .5 1.5) and (-1.75 .25 -.75 2.25): 5.5 / sqrt(5 * 8.75)
  EXPECT_THAT(pearson(std::vector{1.0, 2.0, 3.0, 4.0}, std::vector{1.0, 3.0, 2.0, 5.0}),
              Optional(DoubleNear(5.5 / std::sqrt(43.75), 1e-14)));
}

TEST(Pearson, IsOneForARisingLineAndMinusOneForAFallingOne) {
  const std::vector<double> x{0.1, 0.4, 0.2, 0.9};
  std::vector<double> up;
  std::vector<double> down;
  for (const double value : x) {
    up.push_back(3.0 * value + 7.0);
    down.push_back(1.0 - 0.001 * value);
  }
  EXPECT_THAT(pearson(x, up), Optional(DoubleNear(1.0, 1e-12)));
  EXPECT_THAT(pearson(x, down), Optional(DoubleNear(-1.0, 1e-12)));
  EXPECT_EQ(pearson(x, up), pearson(up, x));
}

TEST(Pearson, IsNotDefinedForAConstantSideOrOnePair) {
  const std::vector<double> constant(3, 0.1);
  const std::vector<double> x{1.0, 2.0, 4.0};
  EXPECT_EQ(pearson(constant, x), std::nullopt);
  EXPECT_EQ(pearson(x, constant), std::nullopt);
  EXPECT_EQ(pearson(std::vector{1.0}, std::vector{2.0}), std::nullopt);
  EXPECT_EQ(pearson({}, {}), std::nullopt);
}

TEST(Pearson, RefusesUnpairedValuesAndValuesThatAreNotFinite) {
  EXPECT_EQ(error_text([] {
              pearson(std::vector{1.0, 2.0}, std::vector{1.0});
            }),
            "pearson: 2 values against 1, expected as many on either side");
  EXPECT_EQ(error_text([] {
              pearson(std::vector{1.0, 2.0}, std::vector{1.0, std::nan("")});
            }),
            "pearson: value 1 of 2 is nan, expected finite values");
}

TEST(RocArea, CountsThePairsInTheRightOrder) {
  EXPECT_THAT(roc_area(std::vector{.1, .4, .35, .8}, {false, false, true, true}),
              Optional(DoubleNear(0.75, 1e-15)));
  EXPECT_THAT(roc_area(std::vector{1.0, 2.0, 3.0}, {false, false, true}), Optional(1.0));
  EXPECT_THAT(roc_area(std::vector{1.0, 2.0, 3.0}, {true, false, false}), Optional(0.0));
}

TEST(RocArea, CountsTiesHalf) {
  EXPECT_THAT(roc_area(std::vector{2.0, 2.0, 2.0, 2.0}, {true, false, true, false}), Optional(0.5));
  // pairs: 3 > 1, 3 > 2, 2 > 1 win, 2 = 2 half
  EXPECT_THAT(roc_area(std::vector{1.0, 2.0, 2.0, 3.0}, {false, true, false, true}),
              Optional(3.5 / 4.0));
}

TEST(RocArea, AgreesWithCountingAllPairs) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Stream stream(seed, "roc test");
    std::vector<double> scores;
    std::vector<bool> positive{true, false};
    for (int i = 0; i < 40; ++i) {
      scores.push_back(static_cast<double>(stream.below(8)));
    }
    while (positive.size() < scores.size()) {
      positive.push_back(stream.bernoulli(0.4));
    }
    double wins = 0.0;
    double pairs = 0.0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      for (std::size_t j = 0; j < scores.size(); ++j) {
        if (positive[i] && !positive[j]) {
          pairs += 1.0;
          wins += scores[i] > scores[j] ? 1.0 : (scores[i] == scores[j] ? 0.5 : 0.0);
        }
      }
    }
    EXPECT_THAT(roc_area(scores, positive), Optional(DoubleNear(wins / pairs, 1e-14)))
        << "seed " << seed;
  }
}

TEST(RocArea, IsNotDefinedWithoutBothKinds) {
  EXPECT_EQ(roc_area(std::vector{1.0, 2.0}, {true, true}), std::nullopt);
  EXPECT_EQ(roc_area(std::vector{1.0, 2.0}, {false, false}), std::nullopt);
  EXPECT_EQ(roc_area({}, {}), std::nullopt);
}

TEST(RocArea, RefusesUnpairedValuesAndValuesThatAreNotFinite) {
  EXPECT_EQ(error_text([] {
              roc_area(std::vector{1.0}, {true, false});
            }),
            "roc_area: 1 values against 2, expected as many on either side");
  EXPECT_EQ(error_text([] {
              roc_area(std::vector{1.0, std::nan("")}, {true, false});
            }),
            "roc_area: value 1 of 2 is nan, expected finite values");
}

}  // namespace winnow::correlation_test
