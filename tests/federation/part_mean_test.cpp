// Means by parts and by stretches: the bits of the whole.
#include "winnow/federation/part_mean.h"

#include <gtest/gtest.h>

#include "testing/support.h"
#include "winnow/base/random.h"
#include "winnow/federation/aggregation.h"

namespace winnow::part_mean_test {

LayoutPtr layout_of(std::int64_t parameters, std::int64_t buffers, std::int64_t counters) {
  return std::make_shared<Layout>(std::vector<Slot>{{"w", {parameters}, SlotKind::parameter},
                                                    {"mean", {buffers}, SlotKind::buffer},
                                                    {"count", {counters}, SlotKind::counter}});
}

std::span<float> values_in(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

std::vector<State> some_models(const LayoutPtr& layout, int count) {
  Stream random(3, "models");
  std::vector<State> models;
  for (int i = 0; i < count; ++i) {
    State model = State::zeros(layout);
    for (float& value : values_in(model.flat)) {
      value = static_cast<float>(random.normal());
    }
    models.push_back(model);
  }
  return models;
}

at::Tensor mean_of(const LayoutPtr& layout, const std::vector<State>& models, Stretch stretch,
                   const std::vector<PartWeights>& weights) {
  PartMean mean(layout, stretch);
  for (std::size_t i = 0; i < models.size(); ++i) {
    mean.add(values_in(models[i].flat.slice(0, stretch.begin, stretch.end)), weights[i]);
  }
  at::Tensor written = at::full({stretch.size()}, -1.0);
  mean.write(values_in(written));
  return written;
}

TEST(PartMean, WeighsParametersAndBuffersApart) {
  const LayoutPtr layout = layout_of(1, 1, 1);
  std::vector<State> models{State::zeros(layout), State::zeros(layout)};
  models[0].flat.copy_(at::tensor({1.0F, 10.0F, 4.0F}));
  models[1].flat.copy_(at::tensor({4.0F, 20.0F, 7.0F}));
  const at::Tensor mean = mean_of(layout, models, {0, 3}, {{1, 3}, {2, 1}});
  EXPECT_EQ(mean[0].item<float>(), 3.0F);   // (1 + 2 * 4) / 3
  EXPECT_EQ(mean[1].item<float>(), 12.5F);  // (3 * 10 + 20) / 4
  EXPECT_EQ(mean[2].item<float>(), 4.75F);  // not rounded yet
}

TEST(PartMean, APartWithoutWeightIsZero) {
  const LayoutPtr layout = layout_of(2, 1, 1);
  const at::Tensor mean = mean_of(layout, some_models(layout, 1), {0, 4}, {{0, 0}});
  EXPECT_TRUE(at::equal(mean, at::zeros({4})));
}

TEST(PartMean, StretchesHaveTheBitsOfTheWholeAndOfWeightedMean) {
  const LayoutPtr layout = layout_of(23, 6, 2);
  const std::vector<State> models = some_models(layout, 7);
  std::vector<PartWeights> weights;
  WeightedMean plain;
  for (std::int64_t i = 0; i < 7; ++i) {
    weights.push_back({3 * i + 1, 3 * i + 1});
    plain.add(models[static_cast<std::size_t>(i)], static_cast<double>(3 * i + 1));
  }
  const at::Tensor whole = mean_of(layout, models, {0, 31}, weights);
  for (const std::int64_t size : {1, 5, 16, 31}) {
    for (std::int64_t begin = 0; begin < 31; begin += size) {
      const std::int64_t end = std::min<std::int64_t>(31, begin + size);
      EXPECT_TRUE(
          at::equal(mean_of(layout, models, {begin, end}, weights), whole.slice(0, begin, end)))
          << begin << " to " << end;
    }
  }
  EXPECT_EQ(mean_of(layout, models, {9, 9}, weights).numel(), 0);
  const State mean = plain.finish();
  EXPECT_TRUE(at::equal(mean.flat.slice(0, 0, 29), whole.slice(0, 0, 29)));
  EXPECT_TRUE(at::equal(mean.counters(), whole.slice(0, 29, 31).round()));
}

// Equal weights are 1024 in sums and 1 elsewhere.
TEST(PartMean, APowerOfTwoAsWeightChangesNoBit) {
  const LayoutPtr layout = layout_of(64, 0, 0);
  const std::vector<State> models = some_models(layout, 9);
  const auto with = [&](std::int64_t weight) {
    return mean_of(layout, models, {0, 64}, std::vector<PartWeights>(9, {weight, weight}));
  };
  EXPECT_TRUE(at::equal(with(1), with(kEqualWeight)));
}

}  // namespace winnow::part_mean_test
