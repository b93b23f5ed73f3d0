#include "winnow/federation/robust/robust_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>

#include "winnow/base/random.h"

namespace winnow::robust_line_test {

double median_of(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return 0.5 * (numbers[(numbers.size() - 1) / 2] + numbers[numbers.size() / 2]);
}

// The definition, with all slopes.
double repeated_median(const std::vector<float>& sorted) {
  std::vector<double> medians;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    std::vector<double> slopes;
    for (std::size_t j = 0; j < sorted.size(); ++j) {
      if (j != i) {
        slopes.push_back((static_cast<double>(sorted[i]) - static_cast<double>(sorted[j])) /
                         (static_cast<double>(i) - static_cast<double>(j)));
      }
    }
    medians.push_back(median_of(slopes));
  }
  return median_of(medians);
}

using Draw = std::function<double(Stream& stream, std::size_t k)>;

// The largest error of the slopes of kLanes columns, relative to the slope.
double largest_error(std::int64_t rows, const Draw& draw, std::uint64_t seed) {
  std::vector<std::vector<float>> columns;
  std::vector<float> tile(static_cast<std::size_t>(rows * kLanes));
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    Stream stream(seed, "test", static_cast<std::uint64_t>(rows), lane);
    std::vector<float> column;
    for (std::size_t k = 0; k < static_cast<std::size_t>(rows); ++k) {
      column.push_back(static_cast<float>(draw(stream, k)));
    }
    std::ranges::sort(column);
    for (std::size_t k = 0; k < column.size(); ++k) {
      tile[k * kLanes + lane] = column[k];
    }
    columns.push_back(std::move(column));
  }
  double slopes[kLanes];
  SlopeFinder finder(rows);
  finder(tile.data(), slopes);
  double largest = 0.0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const double expected = repeated_median(columns[lane]);
    largest = std::max(largest, std::abs(slopes[lane] - expected) / std::max(expected, 1e-30));
  }
  return largest;
}

TEST(SlopeFinder, FindsTheRepeatedMedianOfAnyValues) {
  const std::vector<std::pair<std::string, Draw>> draws{
      {"normal", [](Stream& s, std::size_t) { return s.normal(); }},
      {"uniform", [](Stream& s, std::size_t) { return s.uniform(); }},
      {"close together", [](Stream& s, std::size_t) { return 1.0 + 1e-4 * s.normal(); }},
      {"of all sizes",
       [](Stream& s, std::size_t) { return s.normal() * std::pow(10.0, s.uniform(-6.0, 4.0)); }},
      {"a third far off", [](Stream& s, std::size_t k) { return s.normal() + (k % 3 ? 0 : 1e6); }},
      {"two equal halves", [](Stream& s, std::size_t k) { return s.normal() + (k % 2 ? 0 : 1e3); }},
      {"many equal", [](Stream& s, std::size_t) { return static_cast<double>(s.below(4)); }},
      {"half equal", [](Stream& s, std::size_t k) { return k % 2 == 0 ? 0.25 : s.normal(); }},
      {"huge", [](Stream& s, std::size_t) { return 3e38 * (2.0 * s.uniform() - 1.0); }},
      {"tiny", [](Stream& s, std::size_t) { return 1e-38 * s.normal(); }},
  };
  for (const auto& [name, draw] : draws) {
    for (const std::int64_t rows : {3, 4, 5, 10, 21, 50, 99, 100, 101}) {
      EXPECT_LT(largest_error(rows, draw, 5), 1e-6) << rows << " values, " << name;
    }
  }
}

TEST(SlopeFinder, IsExactOnALineAndZeroOnEqualValues) {
  for (const std::int64_t rows : {3, 8, 61, 100}) {
    std::vector<float> tile(static_cast<std::size_t>(rows * kLanes), 0.3F);
    for (std::int64_t i = 0; i < rows; ++i) {
      tile[static_cast<std::size_t>(i * kLanes)] = static_cast<float>(1 + i);
    }
    double slopes[kLanes];
    SlopeFinder finder(rows);
    finder(tile.data(), slopes);
    EXPECT_NEAR(slopes[0], 1.0, 1e-15);
    EXPECT_EQ(slopes[1], 0.0);
  }
}

TEST(SlopeFinder, CanBeUsedAgain) {
  SlopeFinder finder(40);
  std::vector<float> first(40 * kLanes);
  std::vector<float> second(40 * kLanes);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto rank = static_cast<float>(i / kLanes);
    first[i] = rank * rank;
    second[i] = std::sqrt(rank);
  }
  double once[kLanes];
  double between[kLanes];
  double again[kLanes];
  finder(first.data(), once);
  finder(second.data(), between);
  finder(first.data(), again);
  EXPECT_EQ(once[3], again[3]);
  EXPECT_NE(once[3], between[3]);
}

TEST(RankColumns, GiveEqualValuesTheOrderOfRows) {
  const std::vector<float> column{5, -0.0F, 7, 5, 0.0F, -3, 5};
  std::vector<float> tile(column.size() * kLanes);
  for (std::size_t k = 0; k < column.size(); ++k) {
    std::fill_n(tile.begin() + static_cast<std::ptrdiff_t>(k * kLanes), kLanes, column[k]);
  }
  std::vector<std::int32_t> ranks(tile.size(), 99);
  rank_columns(tile.data(), static_cast<std::int64_t>(column.size()), ranks.data());
  const std::vector<std::int32_t> expected{3, 1, 6, 4, 2, 0, 5};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(ranks[i], expected[i / kLanes]);
  }
}

}  // namespace winnow::robust_line_test
