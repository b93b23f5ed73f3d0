#include "winnow/train/adam.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "testing/support.h"
#include "winnow/train/lane.h"

namespace winnow::adam_test {

// PyTorch's first step: the bias corrections leave lr * g / (|g| + eps).
TEST(Adam, TheFirstStepHasTheSizeOfTheLearningRate) {
  at::Tensor weights = at::tensor({1.0F, 2.0F, 3.0F, 4.0F});
  at::Tensor gradient = at::tensor({0.5F, -2.0F, 0.0F, 1e-8F});
  at::Tensor mean = at::full({4}, 7.0F);  // what an earlier training left
  at::Tensor square = at::full({4}, 7.0F);
  adam_step(weights, gradient, mean, square, {.lr = 0.1}, 1);
  EXPECT_NEAR(weights[0].item<float>(), 0.9F, 1e-6F);
  EXPECT_NEAR(weights[1].item<float>(), 2.1F, 1e-6F);
  EXPECT_EQ(weights[2].item<float>(), 3.0F);
  EXPECT_NEAR(weights[3].item<float>(), 3.95F, 1e-6F) << "half of it where |g| is eps";
  EXPECT_EQ(gradient.abs().sum().item<float>(), 0.0F);
}

// The definition of torch.optim.Adam, in doubles.
TEST(Adam, LaterStepsKeepBothMoments) {
  const std::vector<double> gradients{0.3, -0.1, 0.25, 0.0, 2.0};
  double w = 0.7;
  double m = 0.0;
  double v = 0.0;
  at::Tensor weights = at::full({1}, 0.7F);
  at::Tensor mean = at::zeros({1});
  at::Tensor square = at::zeros({1});
  for (std::size_t t = 1; t <= gradients.size(); ++t) {
    const double g = gradients[t - 1] + 0.01 * w;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const auto steps = static_cast<double>(t);
    w -= 0.05 * (m / (1 - std::pow(0.9, steps))) /
         (std::sqrt(v / (1 - std::pow(0.999, steps))) + 1e-8);
    at::Tensor gradient = at::full({1}, static_cast<float>(gradients[t - 1]));
    adam_step(weights, gradient, mean, square, {.lr = 0.05, .weight_decay = 0.01},
              static_cast<std::int64_t>(t));
    EXPECT_NEAR(weights.item<double>(), w, 1e-6) << "step " << t;
  }
}

struct World {
  World() : samples(data.train.labels.size()) {
    std::iota(samples.begin(), samples.end(), std::int64_t{0});
  }
  LocalSet local(std::size_t count) const {
    return {std::span(samples).first(count), std::span(data.train.labels).first(count)};
  }

  DataSet data = tiny_data();
  Feed feed{data.train.images, data.normalisation, 0, at::kCPU};
  Feed test_feed{data.test.images, data.normalisation, 0, at::kCPU};
  std::vector<std::int64_t> samples;
};

constexpr TrainKey kKey{.seed = 5, .round = 2, .client = 9};

TEST(LaneAdam, TakesTheStepsOfAFreshOptimiserAfterEveryBegin) {
  const World world;
  Lane lane(make_net<TwoLayerNet>(world.data), world.feed, false);
  const State start = lane.initial(1);
  EXPECT_EQ(hash(start), hash(TwoLayerNet(shape_of(world.data)).weights().initial(1)));
  const TrainOptions options{.epochs = 1, .batch_size = 25};
  const Plan plan = make_plan(world.local(25), options, false, kKey);
  const auto trained = [&](bool adam, double lr) {
    lane.begin({start}, kKey);
    lane.run(plan, CrossEntropy(options), {.lr = lr, .adam = adam});
    return lane.model();
  };
  const State sgd = trained(false, 1.0);
  const State adam = trained(true, 0.01);
  const at::Tensor gradient = start.parameters() - sgd.parameters();
  const at::Tensor expected = start.parameters() - gradient.div(gradient.abs() + 1e-8).mul(0.01);
  EXPECT_TRUE(at::allclose(adam.parameters(), expected, 1e-4, 2e-5));
  EXPECT_EQ(hash(trained(true, 0.01)), hash(adam));
  EXPECT_EQ(hash(trained(false, 1.0)), hash(sgd));
}

TEST(LaneAdam, RefusesAPull) {
  const World world;
  Lane lane(make_net<TwoLayerNet>(world.data), world.feed, false);
  const Plan plan = make_plan(world.local(25), {}, false, kKey);
  lane.begin({lane.initial(1)}, kKey);
  EXPECT_EQ(error_text([&] {
              lane.run(plan, CrossEntropy({}), {.rule = {.proximal = 0.1}, .adam = true});
            }),
            "Adam takes no steps with a pull");
}

TEST(LaneAdam, StepsCanBeTakenOnOtherImages) {
  const World world;
  Lane lane(make_net<TwoLayerNet>(world.data), world.feed, false);
  Lane there(make_net<TwoLayerNet>(world.data), world.test_feed, false);
  const State start = lane.initial(1);
  const Plan plan = make_plan(world.local(20), {.epochs = 2, .batch_size = 6}, false, kKey);
  const auto trained = [&](Lane& on, const Feed* feed) {
    on.begin({start}, kKey);
    on.run(plan, CrossEntropy({}), {.momentum = 0.5}, feed);
    return hash(on.model());
  };
  EXPECT_EQ(trained(lane, &world.test_feed), trained(there, nullptr));
  EXPECT_NE(trained(lane, nullptr), trained(there, nullptr));
}

}  // namespace winnow::adam_test
