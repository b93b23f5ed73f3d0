#include "winnow/federation/robust/robust_arfl.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "testing/support.h"
#include "winnow/base/random.h"

namespace winnow::robust_arfl_test {

const std::vector<float> kWorked{1, 1.1F, .9F, 1.05F, 5};

std::vector<State> models_of(const std::vector<float>& values) {
  std::vector<State> models;
  for (const float value : values) {
    models.push_back(state_of({value}));
  }
  return models;
}

void expect_near(const std::vector<double>& values, const std::vector<double>& expected,
                 double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance) << i;
  }
}

double median_of(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return 0.5 * (numbers[(numbers.size() - 1) / 2] + numbers[numbers.size() / 2]);
}

// The formula for one coordinate, step by step (spec: baselines 14).
ArflColumn by_definition(const std::vector<double>& y, double lambda) {
  const std::size_t count = y.size();
  const auto size = static_cast<double>(count);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t k) { return y[k]; });
  std::vector<double> sorted;
  for (const std::size_t k : order) {
    sorted.push_back(y[k]);
  }
  std::vector<double> medians;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> slopes;
    for (std::size_t j = 0; j < count; ++j) {
      if (j != i) {
        slopes.push_back((sorted[i] - sorted[j]) /
                         (static_cast<double>(i) - static_cast<double>(j)));
      }
    }
    medians.push_back(median_of(slopes));
  }
  ArflColumn column;
  column.slope = median_of(medians);
  column.intercept = median_of(sorted) - column.slope * (size - 1.0) / 2.0;
  column.fitted.resize(count);
  column.confidence.resize(count);
  std::vector<double> residuals(count);
  for (std::size_t i = 0; i < count; ++i) {
    column.fitted[order[i]] = column.intercept + column.slope * static_cast<double>(i);
    residuals[i] = std::abs(sorted[i] - column.fitted[order[i]]);
  }
  std::vector<double> larger = residuals;
  larger.erase(std::ranges::min_element(larger));
  column.scale = 1.4826 * (1.0 + 5.0 / (size - 1.0)) * median_of(larger) + 1e-7;
  const double centre = (size - 1.0) / 2.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    squares += std::pow(static_cast<double>(i) - centre, 2);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double leverage = 1.0 / size + std::pow(static_cast<double>(i) - centre, 2) / squares;
    const double limit = lambda * std::sqrt(2.0 / size) * std::sqrt(1.0 - leverage);
    const double u = residuals[i] / column.scale;
    column.confidence[order[i]] = u == 0.0 ? 1.0 : std::min(1.0, limit / u);
  }
  const double mean =
      std::accumulate(column.confidence.begin(), column.confidence.end(), 0.0) / size;
  for (const double omega : column.confidence) {
    column.spread += (omega - mean) * (omega - mean);
  }
  column.spread = std::sqrt(column.spread / (size - 1.0));
  return column;
}

// spec: baselines 14
TEST(ArflColumn, GivesTheWorkedNumbers) {
  const ArflColumn column = arfl_column(kWorked);
  EXPECT_NEAR(column.slope, 0.075, 1e-6);
  EXPECT_NEAR(column.intercept, 0.9, 1e-6);
  expect_near(column.fitted, {.975, 1.125, .9, 1.05, 1.2}, 1e-6);
  EXPECT_NEAR((column.scale - 1e-7) / (1.4826 * (1.0 + 5.0 / 4.0)), 0.025, 1e-6);
  EXPECT_NEAR(column.scale, 0.083396, 1e-6);
  expect_near(column.confidence, {1, 1, 1, 1, .017557}, 1e-6);
  EXPECT_NEAR(column.spread, 0.439362, 1e-6);
}

// spec: baselines 14: Psi = 1.264911 and 1 - h = (.4, .7, .8, .7, .4) by rank
TEST(ArflLimits, GiveTheWorkedNumbers) {
  std::vector<double> squared;
  for (const double limit : arfl_limits(5, 2.0)) {
    squared.push_back(std::pow(limit / 1.264911, 2));
  }
  expect_near(squared, {.4, .7, .8, .7, .4}, 1e-6);
}

// spec: baselines 14
TEST(ArflColumn, OfValuesOnALineTrustsEverybody) {
  const ArflColumn column = arfl_column(std::vector<float>{3, 1, 2, 5, 4});
  EXPECT_EQ(column.confidence, std::vector<double>(5, 1.0));
  EXPECT_EQ(column.spread, 0.0);
  EXPECT_EQ(column.slope, 1.0);
  EXPECT_EQ(column.intercept, 1.0);
}

TEST(ArflColumn, FollowsTheDefinition) {
  for (const std::size_t count : {3U, 4U, 7U, 20U, 100U, 101U}) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      Stream stream(seed, "test", count);
      std::vector<float> values;
      for (std::size_t k = 0; k < count; ++k) {
        const double value = 0.05 + 0.01 * stream.normal() + (stream.uniform() < 0.2 ? 1.0 : 0.0);
        values.push_back(static_cast<float>(seed % 2 == 0 ? value : std::round(20 * value)));
      }
      const ArflColumn column = arfl_column(values, {.lambda = 1.5});
      const ArflColumn expected = by_definition({values.begin(), values.end()}, 1.5);
      EXPECT_NEAR(column.slope, expected.slope, 1e-7) << count << " values, seed " << seed;
      EXPECT_NEAR(column.scale, expected.scale, 1e-6 * expected.scale);
      expect_near(column.fitted, expected.fitted, 1e-6);
      expect_near(column.confidence, expected.confidence, 1e-5);
      EXPECT_NEAR(column.spread, expected.spread, 1e-5);
    }
  }
}

TEST(ArflWeights, AreSquaredSharesOfTheLargest) {
  expect_near(arfl_weights(std::vector<double>{2, 4, 0}), {.2, .8, 0}, 1e-12);
  EXPECT_EQ(arfl_weights(std::vector<double>{0, 0, 0, 0}), std::vector<double>(4, 0.25));
}

// spec: baselines 14
TEST(Arfl, GivesTheWorkedNumbers) {
  const Arfl result = arfl(models_of(kWorked));
  expect_near(result.weights, {.249981, .249981, .249981, .249981, .000077}, 1e-6);
  EXPECT_NEAR(values_of(result.model)[0], 1.012514, 1e-6);
}

// spec: baselines 14
TEST(Arfl, GivesAFartherOutlierNoWeight) {
  const Arfl result = arfl(models_of({1, 1.1F, .9F, 1.05F, 100}));
  expect_near(result.weights, {.25, .25, .25, .25, 0}, 1e-6);
  EXPECT_NEAR(values_of(result.model)[0], 1.0125, 1e-6);
}

// spec: baselines 14
TEST(Arfl, WithoutContributionsIsTheMean) {
  const Arfl result = arfl(models_of({1, 2, 3, 4, 5}));
  EXPECT_EQ(result.weights, std::vector<double>(5, 0.2));
  EXPECT_NEAR(values_of(result.model)[0], 3.0, 1e-6);
}

TEST(Arfl, AddsUpTheContributionsOfAllCoordinates) {
  // More coordinates than a block has; client 4 is off in a few of them.
  const std::int64_t size = 3000;
  const auto layout =
      std::make_shared<const Layout>(std::vector<Slot>{{"w", {size}, SlotKind::parameter, 0, 0}});
  std::vector<State> models;
  for (std::uint64_t k = 0; k < 6; ++k) {
    Stream stream(3, "test", k);
    State state = State::zeros(layout);
    for (std::int64_t i = 0; i < size; ++i) {
      const double off = k == 4 && i % 10 == 0 ? 3.0 : 0.0;
      state.flat.data_ptr<float>()[i] = static_cast<float>(stream.normal() + off);
    }
    models.push_back(state);
  }
  std::vector<double> contributions(6, 0.0);
  std::vector<std::vector<double>> corrected;
  for (std::int64_t i = 0; i < size; ++i) {
    std::vector<double> y;
    for (const State& model : models) {
      y.push_back(static_cast<double>(model.flat.data_ptr<float>()[i]));
    }
    const ArflColumn column = by_definition(y, 2.0);
    for (std::size_t k = 0; k < 6; ++k) {
      contributions[k] += column.confidence[k] * column.spread;
      y[k] = column.confidence[k] < 0.1 ? column.fitted[k] : y[k];
    }
    corrected.push_back(y);
  }
  const std::vector<double> weights = arfl_weights(contributions);
  const Arfl result = arfl(models);
  expect_near(result.weights, weights, 1e-6);
  for (std::size_t i = 0; i < corrected.size(); ++i) {
    ASSERT_NEAR(result.model.flat.data_ptr<float>()[i],
                std::inner_product(weights.begin(), weights.end(), corrected[i].begin(), 0.0),
                1e-5);
  }
  EXPECT_EQ(std::ranges::min_element(result.weights) - result.weights.begin(), 4);
  EXPECT_EQ(hash(arfl(models, {}, 1).model), hash(result.model)) << "whatever the threads";
  EXPECT_EQ(hash(arfl(models, {}, 3).model), hash(result.model));
}

TEST(Arfl, KeepsValuesWhenNothingIsReplaced) {
  const Arfl result = arfl(models_of(kWorked), {.delta = 0.0});
  EXPECT_NEAR(values_of(result.model)[0], .249981 * 4.05 + .000077 * 5, 1e-5);
}

TEST(Arfl, OfOneOrTwoIsTheMedian) {
  EXPECT_EQ(values_of(arfl(models_of({4, 7})).model), std::vector<float>{5.5F});
  EXPECT_EQ(arfl(models_of({4, 7})).weights, (std::vector<double>{.5, .5}));
  EXPECT_EQ(values_of(arfl(models_of({4})).model), std::vector<float>{4});
}

TEST(Arfl, LeavesOutModelsThatAreNotFinite) {
  std::vector<float> values = kWorked;
  values.insert(values.begin() + 1, std::numeric_limits<float>::quiet_NaN());
  values.push_back(std::numeric_limits<float>::infinity());
  const Arfl result = arfl(models_of(values));
  EXPECT_EQ(hash(result.model), hash(arfl(models_of(kWorked)).model));
  EXPECT_EQ(result.weights[1], 0.0);
  EXPECT_EQ(result.weights[6], 0.0);
  EXPECT_NEAR(std::accumulate(result.weights.begin(), result.weights.end(), 0.0), 1.0, 1e-12);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(error_text([&] {
              arfl(models_of({nan, nan, nan}));
            }),
            "ARFL: every model held values that are not finite | the training diverged: lower "
            "train.lr");
}

TEST(Arfl, SkipsTensorsWithoutDimensionsAndWeighsCounters) {
  const auto layout = std::make_shared<const Layout>(
      std::vector<Slot>{{"w", {1}, SlotKind::parameter, 0, 0},
                        {"temperature", {}, SlotKind::parameter, 0, 0},
                        {"batches", {}, SlotKind::counter, 0, 0}});
  std::vector<State> models;
  for (std::size_t k = 0; k < kWorked.size(); ++k) {
    models.push_back(
        {layout, at::tensor({kWorked[k], k == 0 ? 50.0F : kWorked[k], k == 4 ? 1e6F : 10.0F})});
  }
  const Arfl result = arfl(models);
  expect_near(result.weights, {.249981, .249981, .249981, .249981, .000077}, 1e-6);
  EXPECT_EQ(values_of(result.model)[2], 87.0F) << "10 + 0.000077 of a million, rounded";
}

}  // namespace winnow::robust_arfl_test
