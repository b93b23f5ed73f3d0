#include "winnow/train/plan.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "testing/support.h"
#include "winnow/train/feed.h"

namespace winnow::plan_test {

// Samples 100, 101, ... whose labels tell which sample they belong to.
struct Local {
  explicit Local(std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i) {
      samples.push_back(100 + i);
      labels.push_back(7 * (100 + i));
    }
  }
  LocalSet set() const { return {samples, labels}; }

  std::vector<std::int64_t> samples;
  std::vector<std::int64_t> labels;
};

constexpr TrainKey kKey{.seed = 5, .round = 2, .client = 9};

std::vector<std::pair<std::int64_t, std::int64_t>> batches_of(const Plan& plan) {
  std::vector<std::pair<std::int64_t, std::int64_t>> batches;
  for (const Plan::Batch& batch : plan.batches) {
    batches.emplace_back(batch.start, batch.size);
  }
  return batches;
}

TEST(Plan, VisitsEverySampleOnceInEveryEpoch) {
  const Local local(23);
  const Plan plan = make_plan(local.set(), {.epochs = 4, .batch_size = 5}, false, kKey);
  ASSERT_EQ(plan.index.numel(), 4 * 23);
  std::vector<std::vector<std::int64_t>> orders;
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    orders.push_back(numbers_of(plan.index.narrow(0, epoch * 23, 23)));
    std::vector<std::int64_t> sorted = orders.back();
    EXPECT_NE(sorted, local.samples);
    std::ranges::sort(sorted);
    EXPECT_EQ(sorted, local.samples);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(Plan, LabelsFollowTheirSamples) {
  const Local local(23);
  const Plan plan = make_plan(local.set(), {.epochs = 3, .batch_size = 4}, true, kKey);
  EXPECT_TRUE(at::equal(plan.label, plan.index * 7));
}

// spec: label-noise 0.2
TEST(Plan, KeepsTheLastShortBatch) {
  const Local local(10);
  const Plan plan = make_plan(local.set(), {.epochs = 2, .batch_size = 4}, false, kKey);
  using Batches = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(batches_of(plan), (Batches{{0, 4}, {4, 4}, {8, 2}, {10, 4}, {14, 4}, {18, 2}}));
  const Plan even = make_plan(local.set(), {.epochs = 1, .batch_size = 5}, false, kKey);
  EXPECT_EQ(batches_of(even), (Batches{{0, 5}, {5, 5}}));
  const Plan large = make_plan(local.set(), {.epochs = 1, .batch_size = 64}, false, kKey);
  EXPECT_EQ(batches_of(large), (Batches{{0, 10}}));
}

TEST(Plan, OfNothingHasNoBatches) {
  const Plan plan = make_plan({}, {.epochs = 3, .mixup = 1.0}, true, kKey);
  EXPECT_TRUE(plan.batches.empty());
  EXPECT_EQ(plan.index.numel(), 0);
}

TEST(Plan, IsKeyedBySeedRoundAndClient) {
  const Local local(30);
  const TrainOptions options{.epochs = 1, .batch_size = 10, .mixup = 1.0};
  const Plan plan = make_plan(local.set(), options, true, kKey);
  const Plan again = make_plan(local.set(), options, true, kKey);
  EXPECT_TRUE(at::equal(plan.index, again.index));
  EXPECT_TRUE(at::equal(plan.jitter, again.jitter));
  EXPECT_TRUE(at::equal(plan.partner, again.partner));
  EXPECT_TRUE(at::equal(plan.lambda, again.lambda));
  for (const TrainKey& key : {TrainKey{6, 2, 9}, TrainKey{5, 3, 9}, TrainKey{5, 2, 8}}) {
    const Plan other = make_plan(local.set(), options, true, key);
    EXPECT_FALSE(at::equal(plan.index, other.index));
    EXPECT_FALSE(at::equal(plan.jitter, other.jitter));
    EXPECT_FALSE(at::equal(plan.partner, other.partner));
    EXPECT_FALSE(at::equal(plan.lambda, other.lambda));
  }
}

TEST(Plan, OneChoiceDoesNotDisturbAnother) {
  const Local local(30);
  const Plan plain = make_plan(local.set(), {.epochs = 2, .batch_size = 7}, false, kKey);
  EXPECT_FALSE(plain.jitter.defined());
  EXPECT_FALSE(plain.partner.defined());
  EXPECT_FALSE(plain.lambda.defined());

  const Plan augmented = make_plan(local.set(), {.epochs = 2, .batch_size = 7}, true, kKey);
  const Plan all = make_plan(local.set(), {.epochs = 2, .batch_size = 7, .mixup = 0.4}, true, kKey);
  const Plan other =
      make_plan(local.set(),
                {.epochs = 2, .batch_size = 3, .lr = 9.0, .momentum = 0.1, .label_smoothing = 0.5},
                true, kKey);
  const Plan longer = make_plan(local.set(), {.epochs = 5, .batch_size = 7}, true, kKey);
  for (const Plan& plan : {augmented, all, other}) {
    EXPECT_TRUE(at::equal(plan.index, plain.index));
    EXPECT_TRUE(at::equal(plan.jitter, augmented.jitter));
  }
  EXPECT_TRUE(at::equal(longer.index.narrow(0, 0, 60), plain.index));
  EXPECT_TRUE(at::equal(longer.jitter.narrow(0, 0, 60), augmented.jitter));
}

TEST(Plan, JitterReachesEveryPlaceOfTheCrop) {
  const Local local(500);
  const Plan plan = make_plan(local.set(), {.epochs = 10}, true, kKey);
  ASSERT_EQ(plan.jitter.sizes(), (std::vector<std::int64_t>{5000, 3}));
  std::set<std::vector<std::int64_t>> seen;
  const std::vector<std::int64_t> numbers = numbers_of(plan.jitter);
  for (std::size_t i = 0; i < numbers.size(); i += 3) {
    ASSERT_TRUE(numbers[i] >= 0 && numbers[i] <= 2 * kCropPadding);
    ASSERT_TRUE(numbers[i + 1] >= 0 && numbers[i + 1] <= 2 * kCropPadding);
    ASSERT_TRUE(numbers[i + 2] == 0 || numbers[i + 2] == 1);
    seen.insert({numbers[i], numbers[i + 1], numbers[i + 2]});
  }
  EXPECT_EQ(seen.size(), 81U * 2U);
  // Flips are fair: 2500 expected, deviation 35.
  EXPECT_NEAR(plan.jitter.select(1, 2).sum().item<double>(), 2500.0, 200.0);
}

TEST(Plan, JitterOfAPassIsKeyed) {
  EXPECT_TRUE(at::equal(draw_jitter(20, 1), draw_jitter(20, 1)));
  EXPECT_FALSE(at::equal(draw_jitter(20, 1), draw_jitter(20, 2)));
  EXPECT_TRUE(at::equal(draw_jitter(20, 1).narrow(0, 0, 5), draw_jitter(5, 1)));
}

// spec: label-noise A.3; baselines 26
TEST(Plan, MixupPairsSamplesInsideTheirBatch) {
  const Local local(10);
  const Plan plan =
      make_plan(local.set(), {.epochs = 50, .batch_size = 4, .mixup = 1.0}, false, kKey);
  ASSERT_EQ(plan.partner.numel(), 500);
  bool moved = false;
  for (const Plan::Batch& batch : plan.batches) {
    std::vector<std::int64_t> places = numbers_of(plan.partner.narrow(0, batch.start, batch.size));
    moved = moved || !std::ranges::is_sorted(places);
    std::ranges::sort(places);
    for (std::int64_t i = 0; i < batch.size; ++i) {
      ASSERT_EQ(places[static_cast<std::size_t>(i)], i);
    }
  }
  EXPECT_TRUE(moved);
}

// spec: label-noise A.3; baselines 26
TEST(Plan, MixupDrawsOneLambdaPerBatch) {
  const Local local(10);
  const Plan uniform =
      make_plan(local.set(), {.epochs = 1000, .batch_size = 4, .mixup = 1.0}, false, kKey);
  ASSERT_EQ(uniform.lambda.numel(), 3000);
  EXPECT_GT(uniform.lambda.min().item<float>(), 0.0F);
  EXPECT_LT(uniform.lambda.max().item<float>(), 1.0F);
  // Beta(1, 1): mean 1/2 (deviation of the mean 0.0053), variance 1/12.
  EXPECT_NEAR(uniform.lambda.mean().item<double>(), 0.5, 0.03);
  EXPECT_NEAR(uniform.lambda.var().item<double>(), 1.0 / 12.0, 0.01);
  // Beta(100, 100): deviation 0.035.
  const Plan narrow =
      make_plan(local.set(), {.epochs = 100, .batch_size = 4, .mixup = 100.0}, false, kKey);
  EXPECT_NEAR(narrow.lambda.std().item<double>(), 0.0353, 0.008);
}

}  // namespace winnow::plan_test
