#include "winnow/data/synthetic.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

namespace winnow::synthetic_test {

// The share of the training samples whose best-correlated pattern is of their own class.
double nearest_pattern_accuracy(const SyntheticOptions& options) {
  const DataSet set = make_synthetic(options);
  const at::Tensor patterns = synthetic_patterns(options).flatten(0, 1).flatten(1);
  const std::int64_t per_class = patterns.size(0) / options.classes;
  at::Tensor images = set.train.images.flatten(1).to(at::kFloat);
  images = images - images.mean(1, true);
  const at::Tensor predicted = at::floor_divide(images.matmul(patterns.t()).argmax(1), per_class);
  const at::Tensor labels = at::tensor(set.train.labels, at::kLong);
  return predicted.eq(labels).to(at::kDouble).mean().item<double>();
}

TEST(Synthetic, HasTheAskedShapeAndBalancedClasses) {
  const SyntheticOptions options{.samples = 30,
                                 .test_samples = 7,
                                 .classes = 3,
                                 .channels = 2,
                                 .size = 9,
                                 .difficulty = 0.5,
                                 .seed = 4};
  const DataSet set = make_synthetic(options);
  EXPECT_EQ(set.train.images.sizes(), (std::vector<std::int64_t>{30, 2, 9, 9}));
  EXPECT_EQ(set.test.size(), 7);
  EXPECT_EQ(std::ranges::count(set.train.labels, 1), 10);
  EXPECT_EQ(set.class_names.size(), 3U);
}

TEST(Synthetic, ASampleDependsOnSeedPartAndIndexOnly) {
  SyntheticOptions options{.samples = 20, .test_samples = 20};
  const DataSet small = make_synthetic(options);
  options.samples = 40;
  const DataSet large = make_synthetic(options);
  EXPECT_TRUE(at::equal(small.train.images, large.train.images.narrow(0, 0, 20)));
  EXPECT_FALSE(at::equal(small.train.images, small.test.images));
  options.seed = 2;
  EXPECT_FALSE(at::equal(large.train.images, make_synthetic(options).train.images));
}

TEST(Synthetic, IsSeparableWhenEasyAndNotWhenHard) {
  for (const auto& [classes, channels, size] :
       {std::tuple(10, 1, 28), std::tuple(10, 3, 32), std::tuple(20, 3, 16)}) {
    SyntheticOptions options{.samples = 2000,
                             .test_samples = 1,
                             .classes = classes,
                             .channels = channels,
                             .size = size,
                             .seed = 5};
    options.difficulty = 0.0;
    EXPECT_GT(nearest_pattern_accuracy(options), 0.98) << size;
    options.difficulty = 0.2;
    EXPECT_GT(nearest_pattern_accuracy(options), 0.95) << size;
    options.difficulty = 0.9;
    const double hard = nearest_pattern_accuracy(options);
    EXPECT_LT(hard, 0.85) << size;
    EXPECT_GT(hard, 0.4) << size;
  }
}

TEST(Synthetic, UsesTheRangeOfAByteWithoutSaturating) {
  const DataSet set = make_synthetic({.samples = 500, .test_samples = 1, .difficulty = 0.2});
  const at::Tensor values = set.train.images.to(at::kFloat);
  EXPECT_NEAR(values.mean().item<double>(), 127.5, 4.0);
  EXPECT_GT(values.std().item<double>(), 40.0);
  const double clipped =
      at::logical_or(values.eq(0), values.eq(255)).to(at::kFloat).mean().item<double>();
  EXPECT_LT(clipped, 0.05);
}

}  // namespace winnow::synthetic_test
