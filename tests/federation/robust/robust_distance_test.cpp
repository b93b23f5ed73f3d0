#include "winnow/federation/robust/robust_distance.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "testing/support.h"
#include "winnow/base/random.h"

namespace winnow::robust_distance_test {

Distances distances_of(const std::vector<double>& values) {
  Distances distances(static_cast<std::int64_t>(values.size()));
  for (std::int64_t a = 0; a < distances.size(); ++a) {
    for (std::int64_t b = 0; b < a; ++b) {
      const double difference =
          values[static_cast<std::size_t>(a)] - values[static_cast<std::size_t>(b)];
      distances.set(a, b, difference * difference);
    }
  }
  return distances;
}

void expect_near(const std::vector<double>& values, const std::vector<double>& expected,
                 double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance) << i;
  }
}

std::vector<State> random_models(std::uint64_t seed, int count, std::int64_t size) {
  std::vector<State> models;
  const auto layout =
      std::make_shared<const Layout>(std::vector<Slot>{{"w", {size}, SlotKind::parameter, 0, 0}});
  for (int k = 0; k < count; ++k) {
    Stream stream(seed, "test", static_cast<std::uint64_t>(k));
    State state = State::zeros(layout);
    for (std::int64_t i = 0; i < size; ++i) {
      state.flat.data_ptr<float>()[i] = static_cast<float>(stream.normal());
    }
    models.push_back(state);
  }
  return models;
}

// spec: baselines 11
TEST(KrumScores, GiveTheWorkedNumbers) {
  std::vector<State> models;
  for (const float value : {0.0F, 1.0F, 1.5F, 2.2F, 10.0F}) {
    models.push_back(state_of({value}));
  }
  const std::vector<double> scores = krum_scores(squared_distances(models), 1);
  expect_near(scores, {3.25, 1.25, 0.74, 1.93, 133.09}, 1e-5);
  EXPECT_EQ(lowest(scores, 1), std::vector<std::int64_t>{2});
  EXPECT_EQ(lowest(scores, 3), (std::vector<std::int64_t>{2, 1, 3}));
}

// spec: baselines 11
TEST(KrumScores, OfASquareAndAnOutlierPreferTheFirstCorner) {
  const std::vector<State> models{state_of({0, 0}), state_of({0.1F, 0}), state_of({0, 0.1F}),
                                  state_of({0.1F, 0.1F}), state_of({5, 5})};
  const std::vector<double> scores = krum_scores(squared_distances(models), 1);
  expect_near(scores, {0.02, 0.02, 0.02, 0.02, 97.03}, 1e-5);
  EXPECT_EQ(lowest(scores, 1), std::vector<std::int64_t>{0});
}

TEST(KrumScores, CountAtLeastOneAndAtMostAllOthers) {
  const Distances distances = distances_of({0, 1, 3});
  EXPECT_EQ(krum_scores(distances, 9), (std::vector<double>{1, 1, 4})) << "f is too large: nearest";
  EXPECT_EQ(krum_scores(distances_of({7}), 0), std::vector<double>{0});
}

// spec: baselines 11
TEST(KrumScores, DoNotFeelTranslationAndRotation) {
  std::vector<State> models = random_models(1, 7, 2);
  const std::vector<double> before = krum_scores(squared_distances(models), 1);
  const double c = std::cos(0.7);
  const double s = std::sin(0.7);
  for (State& model : models) {
    const float x = model.flat.data_ptr<float>()[0];
    const float y = model.flat.data_ptr<float>()[1];
    model.flat = at::tensor(
        {static_cast<float>(c * x - s * y + 3.0), static_cast<float>(s * x + c * y - 2.0)});
  }
  expect_near(krum_scores(squared_distances(models), 1), before, 1e-5);
}

TEST(KrumScores, TakeAFifthForBadUnlessTold) {
  EXPECT_EQ(default_byzantine(4), 0);
  EXPECT_EQ(default_byzantine(5), 1);
  EXPECT_EQ(default_byzantine(10), 2);
  EXPECT_EQ(default_byzantine(99), 19);
}

TEST(Lowest, TakesTheLowerPlaceOfEqualScoresAndAllWhenAskedForMore) {
  EXPECT_EQ(lowest(std::vector<double>{2, 1, 1, 0}, 2), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(lowest(std::vector<double>{2, 1}, 9), (std::vector<std::int64_t>{1, 0}));
}

TEST(SquaredDistances, AreExactForModelsThatHardlyDiffer) {
  // 1000 + k/8192 are exact in float32; a product of the models would lose the difference.
  const std::vector<State> models{state_of({1000.0F, 1000.0F}),
                                  state_of({1000.0F + 1.0F / 8192, 1000.0F - 2.0F / 8192})};
  EXPECT_EQ(squared_distances(models).at(0, 1), 5.0 / (8192.0 * 8192.0));
}

TEST(SquaredDistances, CountBuffersButNotCounters) {
  const std::vector<State> models{state_of({1, 2}, {3}, {0}), state_of({2, 2}, {5}, {999})};
  const Distances distances = squared_distances(models);
  EXPECT_EQ(distances.at(0, 1), 5.0);
  EXPECT_EQ(distances.at(1, 0), 5.0);
  EXPECT_EQ(distances.at(1, 1), 0.0);
}

TEST(SquaredDistances, DoNotDependOnThreads) {
  const std::vector<State> models = random_models(2, 4, 200001);
  const Distances alone = squared_distances(models, 1);
  const Distances three = squared_distances(models, 3);
  for (std::int64_t a = 0; a < 4; ++a) {
    for (std::int64_t b = 0; b < a; ++b) {
      EXPECT_EQ(alone.at(a, b), three.at(a, b));
      EXPECT_NEAR(
          alone.at(a, b),
          (models[static_cast<std::size_t>(a)].flat - models[static_cast<std::size_t>(b)].flat)
              .to(at::kDouble)
              .pow(2)
              .sum()
              .item<double>(),
          1e-6);
    }
  }
}

// spec: baselines 12
TEST(BulyanSelection, GivesTheWorkedOrder) {
  EXPECT_EQ(bulyan_selection(distances_of({0, .1, .2, .3, .4, .5, 9}), 1),
            (std::vector<std::int64_t>{2, 3, 4, 0, 1}));
}

TEST(BulyanSelection, TakesEverybodyWithoutBadOnes) {
  std::vector<std::int64_t> selected = bulyan_selection(distances_of({3, 1, 8, 2}), 0);
  std::ranges::sort(selected);
  EXPECT_EQ(selected, (std::vector<std::int64_t>{0, 1, 2, 3}));
}

// spec: baselines 12
TEST(MeanAroundMedian, GivesTheWorkedNumber) {
  EXPECT_NEAR(mean_around_median(std::vector<float>{.2F, .3F, .4F, 0, .1F}, 3), 0.2, 1e-7);
}

TEST(MeanAroundMedian, PrefersTheEarlierOfEquallyCloseValues) {
  EXPECT_EQ(mean_around_median(std::vector<float>{5, 1, 3}, 2), 4.0);
  EXPECT_EQ(mean_around_median(std::vector<float>{1, 5, 3}, 2), 2.0);
  EXPECT_EQ(values_of(mean_around_median(
                std::vector<State>{state_of({5, 1}), state_of({1, 5}), state_of({3, 3})}, 2)),
            (std::vector<float>{4, 2}));
}

TEST(MeanAroundMedian, OfModelsIsThatOfEveryCoordinate) {
  for (const auto& [count, keep] : std::vector<std::pair<int, int>>{{5, 3}, {9, 5}, {10, 6}}) {
    // Whole numbers, so that many values are equal or equally close.
    std::vector<State> models = random_models(3, count, 5003);
    for (State& model : models) {
      model.flat = (model.flat * 3.0).round();
    }
    const std::vector<float> mean = values_of(mean_around_median(models, keep, 2));
    for (std::size_t i = 0; i < mean.size(); ++i) {
      std::vector<float> column;
      for (const State& model : models) {
        column.push_back(model.flat.data_ptr<float>()[i]);
      }
      ASSERT_FLOAT_EQ(mean[i], static_cast<float>(mean_around_median(column, keep))) << i;
      const auto [low, high] = std::ranges::minmax(column);
      ASSERT_TRUE(low <= mean[i] && mean[i] <= high);
    }
  }
}

TEST(MeanAroundMedian, OfAllIsTheMean) {
  EXPECT_EQ(values_of(mean_around_median(
                std::vector<State>{state_of({0}, {3}, {1}), state_of({1}, {3}, {2}),
                                   state_of({8}, {6}, {2})},
                3)),
            (std::vector<float>{3, 4, 2}));
}

}  // namespace winnow::robust_distance_test
