#include "winnow/train/adam.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

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
  adam_step(weights, gradient, mean, square, {}, {.lr = 0.1}, 1);
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
    adam_step(weights, gradient, mean, square, {}, {.lr = 0.05, .weight_decay = 0.01},
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
    lane.trainer().begin({start}, kKey);
    lane.trainer().run(plan, CrossEntropy(options),
                       {.lr = lr, .optimizer = adam ? Optimizer::adam : Optimizer::sgd});
    return lane.trainer().model();
  };
  const State sgd = trained(false, 1.0);
  const State adam = trained(true, 0.01);
  const at::Tensor gradient = start.parameters() - sgd.parameters();
  const at::Tensor expected = start.parameters() - gradient.div(gradient.abs() + 1e-8).mul(0.01);
  EXPECT_TRUE(at::allclose(adam.parameters(), expected, 1e-4, 2e-5));
  EXPECT_EQ(hash(trained(true, 0.01)), hash(adam));
  EXPECT_EQ(hash(trained(false, 1.0)), hash(sgd));
}

// Adam and AdamW of LibTorch itself, over random gradients.
template <typename TorchOptimizer, typename TorchOptions>
double farthest_from_torch(const AdamOptions& options) {
  at::Generator generator = at::detail::createCPUGenerator(7);
  at::Tensor weights = at::randn({500}, generator);
  const at::Tensor anchor = at::randn({500}, generator);
  at::Tensor theirs = weights.clone().requires_grad_();
  TorchOptimizer torch_optimizer(std::vector<at::Tensor>{theirs},
                                 TorchOptions(options.lr)
                                     .betas({options.beta1, options.beta2})
                                     .eps(options.epsilon)
                                     .weight_decay(options.weight_decay));
  at::Tensor mean = at::empty({500});
  at::Tensor square = at::empty({500});
  for (std::int64_t step = 1; step <= 40; ++step) {
    at::Tensor gradient = at::randn({500}, generator).mul_(at::randn({500}, generator).exp());
    at::Tensor with_pull = gradient.clone();
    if (options.proximal != 0.0) {
      const at::Tensor away = theirs.detach() - anchor;
      with_pull += options.pull == Pull::square
                       ? away * options.proximal
                       : away * (options.proximal / away.norm().item<double>());
    }
    theirs.mutable_grad() = with_pull;
    torch_optimizer.step();
    adam_step(weights, gradient, mean, square, anchor, options, step);
  }
  return (weights - theirs.detach()).abs().max().item<double>();
}

TEST(Adam, IsThatOfLibTorch) {
  using torch::optim::Adam;
  using torch::optim::AdamOptions;
  EXPECT_EQ((farthest_from_torch<Adam, AdamOptions>({.lr = 0.02})), 0.0);
  EXPECT_EQ((farthest_from_torch<Adam, AdamOptions>(
                {.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-4, .weight_decay = 0.1})),
            0.0);
  for (const Pull pull : {Pull::square, Pull::norm}) {
    EXPECT_LT((farthest_from_torch<Adam, AdamOptions>(
                  {.lr = 0.02, .weight_decay = 0.1, .proximal = 0.3, .pull = pull})),
              1e-6);
  }
}

TEST(Adam, DecoupledDecayIsAdamWOfLibTorch) {
  using torch::optim::AdamW;
  using torch::optim::AdamWOptions;
  EXPECT_EQ((farthest_from_torch<AdamW, AdamWOptions>(
                {.lr = 0.02, .weight_decay = 0.1, .decoupled = true})),
            0.0);
  EXPECT_EQ((farthest_from_torch<AdamW, AdamWOptions>({.lr = 0.02,
                                                       .beta1 = 0.0,
                                                       .beta2 = 0.9,
                                                       .epsilon = 1e-3,
                                                       .weight_decay = 0.5,
                                                       .decoupled = true})),
            0.0);
  EXPECT_LT((farthest_from_torch<AdamW, AdamWOptions>(
                {.lr = 0.02, .weight_decay = 0.1, .decoupled = true, .proximal = 0.3})),
            1e-6);
}

// One step from w = 2 with g = 0 and lr = 0.1: the decay alone moves the weight.
TEST(Adam, TheTwoKindsOfDecayDiffer) {
  const auto moved = [](bool decoupled) {
    at::Tensor weights = at::full({1}, 2.0F);
    at::Tensor gradient = at::zeros({1});
    at::Tensor mean = at::zeros({1});
    at::Tensor square = at::zeros({1});
    adam_step(weights, gradient, mean, square, {},
              {.lr = 0.1, .weight_decay = 0.2, .decoupled = decoupled}, 1);
    return weights.item<double>();
  };
  EXPECT_NEAR(moved(false), 1.9, 1e-6) << "through the gradient: a whole step";
  EXPECT_NEAR(moved(true), 1.96, 1e-6) << "2 * (1 - 0.1 * 0.2)";
}

TEST(LaneAdam, TrainsAsTheOptionsSay) {
  const World world;
  const TrainOptions usual{.epochs = 2, .batch_size = 8, .optimizer = "adam", .lr = 0.01};
  const auto trained = [&](const TrainOptions& options, const LocalRule& rule = {}) {
    Lane lane(make_net<TwoLayerNet>(world.data), world.feed, false);
    return hash(lane.trainer().train(lane.initial(1), world.local(20), options, rule, kKey).state);
  };
  const auto changed = [&](void (*change)(TrainOptions&)) {
    TrainOptions options = usual;
    change(options);
    return trained(options);
  };
  const std::string plain = trained(usual);
  EXPECT_EQ(trained(usual), plain);
  EXPECT_EQ(changed([](TrainOptions& options) { options.momentum = 0.9; }), plain)
      << "momentum is SGD's";
  EXPECT_NE(changed([](TrainOptions& options) { options.optimizer = "sgd"; }), plain);
  EXPECT_NE(changed([](TrainOptions& options) { options.beta1 = 0.5; }), plain);
  EXPECT_NE(changed([](TrainOptions& options) { options.beta2 = 0.9; }), plain);
  EXPECT_NE(changed([](TrainOptions& options) { options.eps = 0.1; }), plain);
  EXPECT_NE(changed([](TrainOptions& options) { options.mixup = 1.0; }), plain);
  EXPECT_EQ(changed([](TrainOptions& options) { options.optimizer = "adamw"; }), plain)
      << "without decay there is no difference";
  TrainOptions decaying = usual;
  decaying.weight_decay = 0.1;
  const std::string with_decay = trained(decaying);
  decaying.optimizer = "adamw";
  EXPECT_NE(trained(decaying), with_decay);
  EXPECT_NE(trained(usual, {.proximal = 0.1}), plain);
  EXPECT_NE(trained(usual, {.proximal = 0.1, .pull = Pull::norm}),
            trained(usual, {.proximal = 0.1}));
  EXPECT_NE(trained(usual, {.head_only = true}), plain);
}

TEST(LaneAdam, APullHoldsTheModelBack) {
  const World world;
  Lane lane(make_net<TwoLayerNet>(world.data), world.feed, false);
  const State start = lane.initial(1);
  const TrainOptions options{.epochs = 4, .batch_size = 5, .optimizer = "adam", .lr = 0.01};
  const auto way = [&](double proximal) {
    const State end =
        lane.trainer().train(start, world.local(25), options, {.proximal = proximal}, kKey).state;
    return (end.parameters() - start.parameters()).norm().item<double>();
  };
  EXPECT_LT(way(10.0), 0.7 * way(0.0));
}

// Steps of one participation that are taken in parts are those of the whole.
TEST(LaneAdam, TheMomentsLastUntilTheNextBegin) {
  const World world;
  Lane lane(make_net<TwoLayerNet>(world.data), world.feed, false);
  const State start = lane.initial(1);
  const TrainOptions options{
      .epochs = 3, .batch_size = 5, .optimizer = "adamw", .weight_decay = 0.1};
  const Plan plan = make_plan(world.local(25), options, false, kKey);
  const auto steps = stepping(options, 0);
  lane.trainer().begin({start}, kKey);
  lane.trainer().run(plan, CrossEntropy(options), steps);
  const State whole = lane.trainer().model();
  lane.trainer().begin({start}, kKey);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    lane.trainer().run(plan.epoch(epoch, 3), CrossEntropy(options), steps);
  }
  EXPECT_EQ(hash(lane.trainer().model()), hash(whole));
}

TEST(LaneAdam, StepsCanBeTakenOnOtherImages) {
  const World world;
  Lane lane(make_net<TwoLayerNet>(world.data), world.feed, false);
  Lane there(make_net<TwoLayerNet>(world.data), world.test_feed, false);
  const State start = lane.initial(1);
  const Plan plan = make_plan(world.local(20), {.epochs = 2, .batch_size = 6}, false, kKey);
  const auto trained = [&](Lane& on, const Feed* feed) {
    on.trainer().begin({start}, kKey);
    on.trainer().run(plan, CrossEntropy({}), {.momentum = 0.5}, feed);
    return hash(on.trainer().model());
  };
  EXPECT_EQ(trained(lane, &world.test_feed), trained(there, nullptr));
  EXPECT_NE(trained(lane, nullptr), trained(there, nullptr));
}

}  // namespace winnow::adam_test
