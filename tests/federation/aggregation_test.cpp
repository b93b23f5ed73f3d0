#include "winnow/federation/aggregation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "testing/support.h"
#include "winnow/base/random.h"

namespace winnow::aggregation_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Values of all sizes, so that a wrong rounding shows.
State random_state(std::uint64_t seed, std::int64_t size = 1000) {
  State state = State::zeros(
      std::make_shared<const Layout>(std::vector<Slot>{{"w", {size}, SlotKind::parameter, 0, 0}}));
  Stream stream(seed, "test");
  auto* values = state.flat.data_ptr<float>();
  for (std::int64_t i = 0; i < size; ++i) {
    values[i] = static_cast<float>(stream.normal() * std::pow(10.0, stream.uniform(-6.0, 3.0)));
  }
  return state;
}

State mean_of(const std::vector<std::pair<State, double>>& parts) {
  WeightedMean mean;
  for (const auto& [state, weight] : parts) {
    mean.add(state, weight);
  }
  return mean.finish();
}

// spec: baselines 1
TEST(WeightedMean, GivesTheWorkedNumber) {
  EXPECT_EQ(values_of(mean_of({{state_of({1}), 100}, {state_of({3}), 300}})),
            std::vector<float>{2.5F});
}

// spec: label-noise 0.1: (1*10 + 2*30) / 40 of C.7 #5
TEST(WeightedMean, WeighsBySamples) {
  EXPECT_EQ(values_of(mean_of({{state_of({1}), 10}, {state_of({2}), 30}})),
            std::vector<float>{1.75F});
  EXPECT_FLOAT_EQ(
      values_of(mean_of({{state_of({1}), 10}, {state_of({2}), 30}, {state_of({9}), 60}}))[0], 6.1F);
}

// spec: baselines 1
TEST(WeightedMean, OfIdenticalModelsIsThatModelExactly) {
  const State state = random_state(1);
  const State mean = mean_of({{state, 7}, {state, 13}, {state.clone(), 1}, {state, 999}});
  EXPECT_EQ(hash(mean), hash(state));
}

// spec: baselines 1
TEST(WeightedMean, WithEqualWeightsIsThePlainMean) {
  EXPECT_EQ(
      values_of(mean_of({{state_of({1, -4}), 5}, {state_of({2, 0}), 5}, {state_of({6, 1}), 5}})),
      (std::vector<float>{3.0F, -1.0F}));
}

// spec: baselines 1
TEST(WeightedMean, OfOnesIsExactlyOne) {
  const State ones = state_of({1, 1}, {1}, {1});
  EXPECT_EQ(values_of(mean_of({{ones, 0.1}, {ones, 0.7}, {ones, 3.3}, {ones, 1e-9}})),
            (std::vector<float>{1, 1, 1, 1}));
}

// spec: label-noise 0.1
TEST(WeightedMean, OfOneContributorIsItsModelExactly) {
  const State state = random_state(2);
  for (const double weight : {1.0, 3.0, 7.0, 0.3, 12345.0}) {
    EXPECT_EQ(hash(mean_of({{state, weight}})), hash(state)) << weight;
  }
}

// spec: baselines 1
TEST(WeightedMean, DependsOnTheOrderOnlyThroughRounding) {
  std::vector<std::pair<State, double>> parts;
  for (std::uint64_t i = 0; i < 20; ++i) {
    parts.emplace_back(random_state(10 + i), 1.0 + static_cast<double>(i * i));
  }
  const State forward = mean_of(parts);
  EXPECT_EQ(hash(forward), hash(mean_of(parts)));
  std::ranges::reverse(parts);
  const State backward = mean_of(parts);
  const at::Tensor gap = (forward.flat - backward.flat).abs();
  EXPECT_TRUE(gap.le(forward.flat.abs() * 1e-6 + 1e-9).all().item<bool>());
}

TEST(WeightedMean, SumsInDoublePrecision) {
  // In float 2^24 + 1 + 1 is 2^24.
  EXPECT_EQ(values_of(mean_of({{state_of({16777216}), 1}, {state_of({1}), 1}, {state_of({1}), 1}})),
            std::vector<float>{5592406.0F});
}

// spec: baselines 0.1
TEST(WeightedMean, AveragesBuffersAndRoundsCounters) {
  const State mean =
      mean_of({{state_of({0}, {1}, {10, 10}), 1}, {state_of({4}, {2}, {11, 13}), 3}});
  EXPECT_EQ(values_of(mean), (std::vector<float>{3.0F, 1.75F, 11.0F, 12.0F}));
}

TEST(WeightedMean, IgnoresContributorsWithoutWeight) {
  EXPECT_EQ(values_of(mean_of({{state_of({5}), 0}, {state_of({2}), 3}})), std::vector<float>{2.0F});
}

// It is formed block by block: what is beyond the first blocks, and an odd rest.
TEST(WeightedMean, OfLargeModelsIsTheSumDividedByTheWeights) {
  constexpr std::int64_t kMany = 1'300'007;
  const State a = random_state(4, kMany);
  const State b = random_state(5, kMany);
  const at::Tensor sum = a.flat.to(at::kDouble) * 3.0 + b.flat.to(at::kDouble) * 11.0;
  const State expected{a.layout, (sum / 14.0).to(at::kFloat)};
  WeightedMean mean;
  for (int time = 0; time < 2; ++time) {
    mean.add(a, 3.0);
    mean.add(b, 11.0);
    EXPECT_EQ(hash(mean.finish()), hash(expected)) << "use " << time;
  }
}

TEST(WeightedMean, TellsItsTotalAndIsReadyForReuse) {
  WeightedMean mean;
  EXPECT_EQ(mean.total_weight(), 0.0);
  const State first = state_of({1});
  mean.add(first, 2.0);
  mean.add(state_of({4}), 1.0);
  EXPECT_EQ(mean.total_weight(), 3.0);
  EXPECT_EQ(values_of(mean.finish()), std::vector<float>{2.0F});
  EXPECT_EQ(values_of(first), std::vector<float>{1.0F});
  EXPECT_EQ(mean.total_weight(), 0.0);
  mean.add(state_of({7, 8}), 1.0);
  EXPECT_EQ(values_of(mean.finish()), (std::vector<float>{7.0F, 8.0F}));
}

TEST(WeightedMean, RefusesToAverageNothing) {
  const std::string text =
      "no client contributed to this round | lower the noise or raise federation.fraction";
  WeightedMean mean;
  EXPECT_EQ(error_text([&] { mean.finish(); }), text);
  EXPECT_EQ(error_kind([&] { mean.finish(); }), ErrorKind::run);
  mean.add(state_of({1}), 0.0);
  EXPECT_EQ(error_text([&] { mean.finish(); }), text);
}

TEST(WeightedMean, RefusesImpossibleWeights) {
  WeightedMean mean;
  for (const double weight :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(error_text([&] { mean.add(state_of({1}), weight); }),
              "a model was added to an average with an impossible weight");
  }
  EXPECT_EQ(mean.total_weight(), 0.0);
}

TEST(WeightedMean, RefusesModelsOfDifferentLayouts) {
  WeightedMean mean;
  mean.add(state_of({1, 2}), 1.0);
  const std::string text = "models of different layouts cannot be averaged";
  EXPECT_EQ(error_text([&] { mean.add(state_of({1, 2, 3}), 1.0); }), text);
  EXPECT_EQ(error_text([&] { mean.add(state_of({1}, {2}), 1.0); }), text);
  EXPECT_EQ(error_kind([&] { mean.add(state_of({1}), 1.0); }), ErrorKind::peer);
  // An equal layout of another model is the same layout.
  mean.add(state_of({3, 4}), 1.0);
  EXPECT_EQ(values_of(mean.finish()), (std::vector<float>{2.0F, 3.0F}));
}

TEST(AllFinite, FindsOneBadValueAnywhere) {
  EXPECT_TRUE(all_finite(state_of({1, -2, 0}, {3}, {4})));
  for (const float bad : {kNaN, kInfinity, -kInfinity}) {
    EXPECT_FALSE(all_finite(state_of({bad, 1})));
    EXPECT_FALSE(all_finite(state_of({1, 1}, {bad})));
    EXPECT_FALSE(all_finite(state_of({1, 1}, {1}, {bad})));
  }
  EXPECT_FALSE(all_finite(state_of({kInfinity, -kInfinity})));
}

TEST(AllFinite, BearsHugeValues) {
  State state = random_state(3, 100'000);
  state.flat.fill_(std::numeric_limits<float>::max());
  EXPECT_TRUE(all_finite(state));
  state.flat.neg_();
  EXPECT_TRUE(all_finite(state));
  state.flat[99'999] = kNaN;
  EXPECT_FALSE(all_finite(state));
}

}  // namespace winnow::aggregation_test
