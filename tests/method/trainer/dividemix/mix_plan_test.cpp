#include "winnow/method/trainer/dividemix/mix_plan.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "testing/support.h"

namespace winnow::dividemix::dividemix_mix_plan_test {

// Sample 100 + place with label place % 3; every place below `labelled` is clean.
struct World {
  World(std::int64_t count, std::int64_t labelled) {
    for (std::int64_t place = 0; place < count; ++place) {
      samples.push_back(100 + place);
      labels.push_back(place % 3);
      clean.push_back(place < labelled ? 0.9 : 0.2);
    }
  }
  MixPlan plan(const MixOptions& options = {.batch_size = 4}, std::uint64_t key = 7) const {
    return make_mix_plan({samples, labels}, clean, options, key);
  }

  std::vector<std::int64_t> samples;
  std::vector<std::int64_t> labels;
  std::vector<double> clean;
};

TEST(MixPlan, PairsLabelledSamplesWithAsManyOthers) {
  const World world(16, 10);
  const MixPlan made = world.plan();
  ASSERT_TRUE(made.unlabelled);
  ASSERT_EQ(made.plan.batches.size(), 3U) << "ceil(10 / 4)";
  const std::vector<std::int64_t> places = numbers_of(made.plan.place);
  std::map<std::int64_t, int> times;
  std::int64_t next = 0;
  for (const auto& [start, size, opens] : made.plan.batches) {
    EXPECT_EQ(start, next) << "one after the other";
    EXPECT_EQ(size, start < 16 ? 8 : 4);
    EXPECT_EQ(opens, start == 0);
    next += size;
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t place = places[static_cast<std::size_t>(start + i)];
      EXPECT_EQ(place < 10, i < size / 2) << "labelled ones first";
      ++times[place];
    }
  }
  EXPECT_EQ(made.plan.entries(), next);
  for (std::int64_t place = 0; place < 10; ++place) {
    EXPECT_EQ(times[place], 1);
  }
  for (std::int64_t place = 10; place < 16; ++place) {
    EXPECT_TRUE(times[place] == 1 || times[place] == 2) << "10 draws from 6, in turns";
  }
}

TEST(MixPlan, EntriesKnowTheirSampleLabelAndProbability) {
  const World world(16, 10);
  const MixPlan made = world.plan();
  const std::vector<std::int64_t> places = numbers_of(made.plan.place);
  for (std::size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(numbers_of(made.plan.index)[i], 100 + places[i]);
    EXPECT_EQ(numbers_of(made.plan.label)[i], places[i] % 3);
    EXPECT_FLOAT_EQ(values_of(made.clean)[i], places[i] < 10 ? 0.9F : 0.2F);
  }
}

TEST(MixPlan, AFewUnlabelledSamplesComeAgainAndAgain) {
  const World world(9, 8);
  const MixPlan made = world.plan();
  EXPECT_EQ(std::ranges::count(numbers_of(made.plan.place), 8), 8);
}

TEST(MixPlan, WithoutUnlabelledSamplesBatchesAreLabelledAlone) {
  const MixPlan made = World(9, 9).plan();
  EXPECT_FALSE(made.unlabelled);
  ASSERT_EQ(made.plan.batches.size(), 3U);
  EXPECT_EQ(made.plan.batches[0].size, 4);
  EXPECT_EQ(made.plan.batches[2].size, 1);
  std::vector<std::int64_t> places = numbers_of(made.plan.place);
  std::ranges::sort(places);
  std::vector<std::int64_t> expected(9);
  std::iota(expected.begin(), expected.end(), std::int64_t{0});
  EXPECT_EQ(places, expected);
}

TEST(MixPlan, WithoutLabelledSamplesThereIsNoBatch) {
  EXPECT_TRUE(World(9, 0).plan().plan.batches.empty());
  EXPECT_TRUE(World(9, 9).plan({.threshold = 0.9}).plan.batches.empty()) << "above, not at";
}

TEST(MixPlan, PartnersArePermutationsOfBothViews) {
  const MixPlan made = World(16, 10).plan();
  for (const auto& [start, size, opens] : made.plan.batches) {
    std::vector<std::int64_t> partners = numbers_of(made.partner.narrow(0, start, size));
    std::ranges::sort(partners);
    std::vector<std::int64_t> expected(static_cast<std::size_t>(2 * size));
    std::iota(expected.begin(), expected.end(), std::int64_t{0});
    EXPECT_EQ(partners, expected);
  }
}

TEST(MixPlan, TheOwnShareIsTheLarger) {
  const MixPlan made = World(400, 300).plan({.batch_size = 1});
  EXPECT_GE(made.lambda.min().item<float>(), 0.5F);
  EXPECT_LE(made.lambda.max().item<float>(), 1.0F);
  // The mean of max(x, 1 - x) for Beta(4, 4) is 1/2 + 35/256.
  EXPECT_NEAR(made.lambda.mean().item<float>(), 0.6367, 0.02);
}

TEST(MixPlan, IsKeyedAndAugmentsEitherView) {
  const World world(16, 10);
  const MixOptions options{.batch_size = 4, .augment = true};
  const MixPlan made = world.plan(options);
  EXPECT_EQ(made.plan.views, 2);
  EXPECT_EQ(made.plan.jitter.size(0), 2 * made.plan.entries());
  EXPECT_FALSE(world.plan().plan.jitter.defined());
  const MixPlan again = world.plan(options);
  EXPECT_TRUE(again.plan.place.equal(made.plan.place));
  EXPECT_TRUE(again.plan.jitter.equal(made.plan.jitter));
  EXPECT_TRUE(again.partner.equal(made.partner));
  EXPECT_FALSE(world.plan(options, 8).plan.place.equal(made.plan.place));
}

}  // namespace winnow::dividemix::dividemix_mix_plan_test
