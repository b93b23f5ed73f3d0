#include "winnow/federation/robust/robust.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "testing/support.h"
#include "winnow/base/random.h"

namespace winnow::robust_test {

std::vector<State> models_of(std::initializer_list<float> values) {
  std::vector<State> models;
  for (const float value : values) {
    models.push_back(state_of({value}));
  }
  return models;
}

float median_of(std::initializer_list<float> values) {
  return values_of(coordinate_median(models_of(values))).front();
}

// Models of one layout with values of all sizes; more coordinates than a block has.
std::vector<State> random_models(std::uint64_t seed, int count, std::int64_t size = 9001) {
  const auto layout = std::make_shared<const Layout>(std::vector<Slot>{
      {"w", {size}, SlotKind::parameter, 0, 0}, {"b", {3}, SlotKind::buffer, 0, 0}});
  std::vector<State> models;
  for (int k = 0; k < count; ++k) {
    Stream stream(seed, "test", static_cast<std::uint64_t>(k));
    State state = State::zeros(layout);
    for (std::int64_t i = 0; i < layout->total(); ++i) {
      state.flat.data_ptr<float>()[i] =
          static_cast<float>(stream.normal() * std::pow(10.0, stream.uniform(-3.0, 2.0)));
    }
    models.push_back(state);
  }
  return models;
}

TEST(HeldModels, AreInTheOrderOfClientIds) {
  HeldModels held;
  held.add(7, state_of({7}), 70, 70);
  held.add(2, state_of({2}), 20, 20);
  held.add(5, state_of({5}), 50, 50);
  EXPECT_EQ(held.clients(), (std::vector<std::int64_t>{2, 5, 7}));
  EXPECT_EQ(held.weights(), (std::vector<double>{20, 50, 70}));
  EXPECT_EQ(values_of(held.models()[2]), std::vector<float>{7});
  EXPECT_EQ(held.clients_at(std::vector<std::int64_t>{2, 0}), (std::vector<std::int64_t>{7, 2}));
}

TEST(HeldModels, ShareTheBufferAndGiveEverythingAway) {
  const State model = state_of({1, 2});
  HeldModels held;
  held.add(0, model, 1, 1);
  const HeldModels taken = held.take();
  EXPECT_EQ(taken.models().front().flat.data_ptr(), model.flat.data_ptr());
  EXPECT_EQ(held.size(), 0);
  EXPECT_EQ(error_text([&] { held.take(); }),
            "no client contributed to this round | lower the noise or raise federation.fraction");
}

TEST(HeldModels, RefuseAnotherLayout) {
  HeldModels held;
  held.add(0, state_of({1, 2}), 1, 1);
  EXPECT_EQ(error_text([&] {
              held.add(1, state_of({1, 2, 3}), 1, 1);
            }),
            "models of different layouts cannot be aggregated");
  EXPECT_EQ(error_kind([&] { held.add(1, state_of({1}), 1, 1); }), ErrorKind::peer);
}

TEST(SumOverBlocks, AddsInTheOrderOfBlocksWhateverTheThreads) {
  const auto sums = [](std::size_t threads) {
    return sum_over_blocks(1000, 64, 2, threads,
                           [](std::int64_t begin, std::int64_t end, std::span<double> partial) {
                             for (std::int64_t i = begin; i < end; ++i) {
                               partial[0] += 1.0;
                               partial[1] += 1.0 / static_cast<double>(i + 1);
                             }
                           });
  };
  const std::vector<double> alone = sums(1);
  EXPECT_EQ(alone[0], 1000.0);
  EXPECT_NEAR(alone[1], 7.485470860550345, 1e-12);
  EXPECT_EQ(sums(2), alone);
  EXPECT_EQ(sums(7), alone);
}

TEST(SumOverBlocks, OfNoCoordinatesIsZero) {
  EXPECT_EQ(sum_over_blocks(0, 64, 1, 2, [](auto, auto, auto) { FAIL(); }),
            std::vector<double>{0.0});
}

TEST(SumOverBlocks, HandsOnWhatWorkThrows) {
  EXPECT_THROW(for_each_block(1000, 10, 3,
                              [](std::int64_t begin, std::int64_t) {
                                if (begin == 500) {
                                  throw std::runtime_error("work");
                                }
                              }),
               std::runtime_error);
}

TEST(Key, OrdersAsTheFloatDoesAndComesBack) {
  const std::vector<float> ascending{-3e38F, -2.5F, -1e-40F, -0.0F, 0.0F, 1e-40F, 1.0F, 3e38F};
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    EXPECT_EQ(value_of(key_of(ascending[i])), ascending[i]);
    EXPECT_TRUE(i == 0 || key_of(ascending[i - 1]) < key_of(ascending[i])) << ascending[i];
  }
}

TEST(ColumnSort, SortsColumnsOfAnyHeight) {
  for (std::int64_t rows = 1; rows <= 70; ++rows) {
    Stream stream(1, "test", static_cast<std::uint64_t>(rows));
    std::vector<std::int32_t> tile(static_cast<std::size_t>(rows * kLanes));
    for (std::int32_t& key : tile) {
      key = static_cast<std::int32_t>(stream.below(50)) - 25;
    }
    std::vector<std::int32_t> sorted = tile;
    ColumnSort{rows}(sorted.data());
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const auto column = [&](const std::vector<std::int32_t>& from) {
        std::vector<std::int32_t> column;
        for (std::int64_t i = lane; i < rows * kLanes; i += kLanes) {
          column.push_back(from[static_cast<std::size_t>(i)]);
        }
        return column;
      };
      std::vector<std::int32_t> expected = column(tile);
      std::ranges::sort(expected);
      ASSERT_EQ(column(sorted), expected) << rows << " rows";
    }
  }
}

// spec: baselines 10
TEST(CoordinateMedian, GivesTheWorkedNumbers) {
  EXPECT_EQ(median_of({1, 2, 3, 4, 100}), 3.0F);
  EXPECT_EQ(median_of({1, 2, 3, 100}), 2.5F);
  EXPECT_EQ(median_of({4, 7}), 5.5F) << "of two it is the mean";
  EXPECT_EQ(median_of({-6.25F}), -6.25F) << "of one it is that one";
}

TEST(CoordinateMedian, IsTheMiddleOfEverySingleCoordinate) {
  for (const int count : {4, 7, 33}) {
    const std::vector<State> models = random_models(2, count);
    const std::vector<float> median = values_of(coordinate_median(models));
    for (std::size_t i = 0; i < median.size(); ++i) {
      std::vector<float> column;
      for (const State& model : models) {
        column.push_back(model.flat.data_ptr<float>()[i]);
      }
      std::ranges::sort(column);
      ASSERT_EQ(median[i],
                static_cast<float>(0.5 * (static_cast<double>(column[(column.size() - 1) / 2]) +
                                          static_cast<double>(column[column.size() / 2]))));
    }
  }
}

// spec: baselines 10
TEST(CoordinateMedian, FollowsTranslationAndScaling) {
  std::vector<State> models = random_models(3, 6);
  const std::vector<float> before = values_of(coordinate_median(models));
  for (State& model : models) {
    model.flat = model.flat * -4.0 + 64.0;
  }
  const std::vector<float> after = values_of(coordinate_median(models));
  for (std::size_t i = 0; i < before.size(); ++i) {
    ASSERT_NEAR(after[i], -4.0F * before[i] + 64.0F, 1e-5F * std::abs(after[i]) + 1e-5F);
  }
}

// spec: baselines 10
TEST(CoordinateMedian, DoesNotFeelTheSizeOfAMinorityOfOutliers) {
  EXPECT_EQ(median_of({1, 2, 3, 50, 60}), median_of({1, 2, 3, 1e30F, 3e38F}));
  EXPECT_EQ(median_of({1, 2, 3, -50, 60}), median_of({1, 2, 3, -3e38F, 3e38F}));
}

TEST(CoordinateMedian, TreatsBuffersLikeParametersAndAveragesCounters) {
  const std::vector<State> models{state_of({1, 9}, {5}, {10}), state_of({2, 8}, {6}, {11}),
                                  state_of({90, 7}, {-70}, {14})};
  EXPECT_EQ(values_of(coordinate_median(models)), (std::vector<float>{2, 8, 5, 12}));
}

TEST(CoordinateMedian, DoesNotDependOnOrderOrThreads) {
  std::vector<State> models = random_models(4, 9, 20000);
  const std::string alone = hash(coordinate_median(models, 1));
  EXPECT_EQ(hash(coordinate_median(models, 2)), alone);
  EXPECT_EQ(hash(coordinate_median(models, 5)), alone);
  std::ranges::reverse(models);
  EXPECT_EQ(hash(coordinate_median(models)), alone);
}

std::vector<State> corners() {
  return {state_of({0, 0}), state_of({1, 0}), state_of({0, 1}), state_of({10, 10})};
}

GeometricMedian reweighted(const std::vector<State>& models, std::int64_t reweightings) {
  return geometric_median(models, std::vector<double>(models.size(), 1.0),
                          {.reweightings = reweightings});
}

// spec: baselines 13
TEST(GeometricMedian, GivesTheWorkedNumbers) {
  const std::vector<double> points{2.75, 1.324170, 0.743584, 0.570095, 0.522398};
  const std::vector<double> objectives{4.217170, 3.928811, 3.892545, 3.889442};
  for (std::size_t i = 0; i < points.size(); ++i) {
    const GeometricMedian median = reweighted(corners(), static_cast<std::int64_t>(i));
    for (const float value : values_of(median.model)) {
      EXPECT_NEAR(value, points[i], 1e-6) << i << " re-weightings";
    }
    if (i > 0) {
      EXPECT_NEAR(median.objective, objectives[i - 1], 1e-6) << i << " re-weightings";
    }
    EXPECT_EQ(median.passes, static_cast<std::int64_t>(i) + 1);
  }
  EXPECT_NEAR(values_of(reweighted(corners(), 60).model)[0], 0.5, 1e-4) << "the limit";
}

// spec: baselines 13
TEST(GeometricMedian, NeverIncreasesTheObjective) {
  const std::vector<State> models = random_models(5, 8, 500);
  double last = INFINITY;
  for (std::int64_t i = 0; i < 12; ++i) {
    const double objective = reweighted(models, i).objective;
    EXPECT_LE(objective, last * (1.0 + 1e-12)) << i << " re-weightings";
    last = objective;
  }
}

// spec: baselines 13
TEST(GeometricMedian, OfThreeNumbersIsTheMiddleOne) {
  EXPECT_NEAR(values_of(reweighted(models_of({0, 1, 5}), 100).model)[0], 1.0, 1e-4);
  EXPECT_NEAR(values_of(geometric_median(models_of({0, 1, 5}), std::vector<double>{1, 1, 1},
                                         {.until_converged = true})
                            .model)[0],
              1.0, 1e-3);
}

// spec: baselines 13
TEST(GeometricMedian, OfEqualModelsStaysThere) {
  const State model = random_models(6, 1).front();
  const std::vector<State> models(5, model);
  for (const std::int64_t reweightings : {0, 4}) {
    EXPECT_EQ(hash(reweighted(models, reweightings).model), hash(model));
  }
}

// spec: baselines 13 and T4
TEST(GeometricMedian, NeedsManyPassesAgainstAHugeOutlier) {
  std::vector<State> models;
  Stream stream(11, "test");
  for (int k = 0; k < 9; ++k) {
    models.push_back(state_of({static_cast<float>(1.0 + 0.1 * stream.normal())}));
  }
  models.push_back(state_of({1e6F}));
  EXPECT_NEAR(values_of(reweighted(models, 4).model)[0], 17.9, 0.3);
  EXPECT_NEAR(values_of(reweighted(models, 20).model)[0], 1.0, 0.15);
}

TEST(GeometricMedian, StopsWhenItHasConverged) {
  const std::vector<double> equal(4, 1.0);
  const GeometricMedian median = geometric_median(corners(), equal, {.until_converged = true});
  EXPECT_GT(median.passes, 8);
  EXPECT_LT(median.passes, 30);
  EXPECT_NEAR(values_of(median.model)[0], 0.5, 1e-4);
  const GeometricMedian next = reweighted(corners(), median.passes);
  EXPECT_LT(distance(next.model, median.model), 1e-5);
}

TEST(GeometricMedian, GivesUpAfterAHundredReweightings) {
  // The limit is zero, so that the relative change never becomes small.
  const GeometricMedian median = geometric_median(
      models_of({0, 1, -1.5F}), std::vector<double>{1, 1, 1}, {.until_converged = true});
  EXPECT_LE(median.passes, 101);
  EXPECT_NEAR(values_of(median.model)[0], 0.0, 1e-3);
}

TEST(GeometricMedian, WeighsModelsAndIgnoresThoseOfNoWeight) {
  const std::vector<State> models = models_of({1, 3, 1e6F});
  const std::vector<double> weights{100, 300, 0};
  EXPECT_EQ(values_of(geometric_median(models, weights, {.reweightings = 0}).model),
            std::vector<float>{2.5F});
  EXPECT_NEAR(values_of(geometric_median(models, weights, {.reweightings = 60}).model)[0], 3.0,
              1e-4)
      << "three quarters of the weight";
}

TEST(GeometricMedian, RefusesModelsThatWeighNothing) {
  EXPECT_EQ(error_text([] {
              geometric_median(models_of({1, 2}), std::vector<double>{0, 0});
            }),
            "no client contributed to this round | lower the noise or raise federation.fraction");
}

TEST(GeometricMedian, LeavesCountersOutOfDistances) {
  std::vector<State> models;
  std::vector<State> counted;
  for (const float value : {0.0F, 1.0F, 5.0F}) {
    models.push_back(state_of({value}, {1}));
    counted.push_back(state_of({value}, {1}, {1000.0F * value}));
  }
  const std::vector<float> plain = values_of(reweighted(models, 3).model);
  const std::vector<float> with = values_of(reweighted(counted, 3).model);
  EXPECT_EQ(with[0], plain[0]);
  EXPECT_EQ(with[2], std::round(with[2]));
}

TEST(GeometricMedian, FollowsTranslationAndIgnoresOrderAndThreads) {
  std::vector<State> models = random_models(7, 5, 20000);
  std::vector<double> weights{1, 2, 3, 4, 5};
  const State alone = geometric_median(models, weights, {}, 1).model;
  EXPECT_EQ(hash(geometric_median(models, weights, {}, 3).model), hash(alone));
  std::ranges::reverse(models);
  std::ranges::reverse(weights);
  EXPECT_LT(distance(geometric_median(models, weights).model, alone), 1e-4);
  for (State& model : models) {
    model.flat = model.flat + 8.0;
  }
  State moved = geometric_median(models, weights).model;
  moved.flat = moved.flat - 8.0;
  EXPECT_LT(distance(moved, alone), 1e-3);
}

// The definition for one coordinate.
double trimmed_by_definition(const std::vector<State>& models, std::int64_t at,
                             const std::vector<double>& factors, std::size_t per_end) {
  std::vector<std::pair<float, double>> values;
  for (std::size_t k = 0; k < models.size(); ++k) {
    values.emplace_back(models[k].flat.data_ptr<float>()[at], factors[k]);
  }
  std::ranges::stable_sort(values, {}, &std::pair<float, double>::first);
  double sum = 0.0;
  double weight = 0.0;
  for (std::size_t k = per_end; k < values.size() - per_end; ++k) {
    sum += values[k].second * static_cast<double>(values[k].first);
    weight += values[k].second;
  }
  return sum / weight;
}

TEST(TrimmedMean, FollowsTheDefinitionWithAndWithoutFactors) {
  for (const int count : {1, 2, 5, 10, 33}) {
    // Every other time whole numbers, so that many values are equal.
    std::vector<State> models = random_models(6, count);
    if (count % 2 == 0) {
      for (State& model : models) {
        model.flat.round_();
      }
    }
    std::vector<double> equal(models.size(), 0.7);
    std::vector<double> mixed;
    for (std::size_t k = 0; k < models.size(); ++k) {
      mixed.push_back(k % 3 == 0 ? 0.15 : 1.0 + static_cast<double>(k));
    }
    const std::size_t per_end = models.size() / 5;
    for (const std::vector<double>& factors : {equal, mixed}) {
      const State result = trimmed_mean(models, factors, static_cast<std::int64_t>(per_end));
      for (std::int64_t i = 0; i < result.layout->total(); ++i) {
        const double expected = trimmed_by_definition(models, i, factors, per_end);
        ASSERT_NEAR(result.flat.data_ptr<float>()[i], expected, 1e-6 * std::abs(expected) + 1e-12)
            << count << " models, coordinate " << i;
      }
    }
  }
}

TEST(TrimmedMean, DoesNotDependOnThreads) {
  const std::vector<State> models = random_models(7, 11);
  for (const double first : {1.0, 0.3}) {
    std::vector<double> factors(models.size(), 1.0);
    factors.front() = first;
    const std::string alone = hash(trimmed_mean(models, factors, 2, 1));
    EXPECT_EQ(hash(trimmed_mean(models, factors, 2, 2)), alone);
    EXPECT_EQ(hash(trimmed_mean(models, factors, 2, 5)), alone);
  }
}

TEST(TrimmedMean, DropsInfinitiesWithAndWithoutFactors) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<State> models = models_of({1, inf, 3, -inf, 2});
  EXPECT_EQ(values_of(trimmed_mean(models, std::vector<double>(5, 1.0), 1)),
            std::vector<float>{2.0F});
  EXPECT_EQ(values_of(trimmed_mean(models, std::vector<double>{1, 1, 1, 1, 2}, 1)),
            std::vector<float>{2.0F});
}

TEST(TrimmedMean, KeepsTheSignOfACommonZero) {
  const State result = trimmed_mean(models_of({-0.0F, -0.0F, -0.0F}), std::vector<double>(3, 1), 1);
  EXPECT_TRUE(std::signbit(values_of(result).front()));
}

}  // namespace winnow::robust_test
