#include "winnow/train/lane.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "testing/resident.h"
#include "testing/support.h"
#include "winnow/train/loss.h"
#include "winnow/train/nets.h"
#include "winnow/train/sgd.h"

namespace winnow::lane_test {

constexpr TrainKey kKey{.seed = 5, .round = 2, .client = 9};

// A data set with a feed over its training images and all of them as one local set.
struct World {
  explicit World(DataSet set)
      : data(std::move(set)),
        feed(data.train.images, data.normalisation, 0, at::kCPU),
        test_feed(data.test.images, data.normalisation, 0, at::kCPU),
        samples(data.train.labels.size()) {
    std::iota(samples.begin(), samples.end(), std::int64_t{0});
  }
  World() : World(tiny_data()) {}

  LocalSet local(std::size_t first = 0, std::size_t count = 25) const {
    return {std::span(samples).subspan(first, count),
            std::span(data.train.labels).subspan(first, count)};
  }
  template <typename T>
  Lane lane(bool augment = false, const std::atomic<bool>* stop = nullptr) const {
    return {make_net<T>(data), feed, augment, stop};
  }
  // Normalised images without the feed.
  at::Tensor images(const at::Tensor& index) const {
    return data.train.images.index_select(0, index).to(at::kFloat).div(255.0).sub(0.5).div(0.25);
  }

  DataSet data;
  Feed feed;
  Feed test_feed;
  std::vector<std::int64_t> samples;
};

template <typename T>
State initial(const World& world, std::uint64_t seed = 1) {
  return T(shape_of(world.data)).weights().initial(seed);
}

// A network whose features come from a function; the head starts as the identity.
class ProbeNet final : public Net {
 public:
  using Script = std::function<at::Tensor(const at::Tensor& images)>;

  ProbeNet(std::int64_t classes, Script script) : script_(std::move(script)) {
    const auto identity = [classes](Stream&, std::span<float> values) {
      for (std::int64_t i = 0; i < classes; ++i) {
        values[static_cast<std::size_t>(i * classes + i)] = 1.0F;
      }
    };
    declare_head("fc", classes, classes, identity, init::zeros());
  }
  at::Tensor features(const at::Tensor& images, const Pass& /*pass*/) const override {
    return script_(images);
  }

 private:
  Script script_;
};

// Local training of a TwoLayerNet written the long way: separate tensors, PyTorch's SGD for each.
std::vector<at::Tensor> train_long_hand(const World& world, const State& start, const LocalSet& set,
                                        const TrainOptions& options, double proximal) {
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> velocity;
  for (const Slot& slot : start.layout->slots()) {
    weights.push_back(start.view(slot).clone().set_requires_grad(true));
    velocity.emplace_back();
  }
  const Plan plan = make_plan(set, options, false, kKey);
  for (const Plan::Batch& batch : plan.batches) {
    const at::Tensor x = world.images(plan.index.narrow(0, batch.start, batch.size)).flatten(1);
    const at::Tensor hidden = at::linear(x, weights[0], weights[1]).tanh();
    const at::Tensor logits = at::linear(hidden, weights[2], weights[3]);
    at::cross_entropy_loss(logits, plan.label.narrow(0, batch.start, batch.size)).backward();
    const c10::NoGradGuard no_gradient;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const at::Tensor anchor = start.view(start.layout->slots()[i]);
      const at::Tensor gradient =
          weights[i].grad() + options.weight_decay * weights[i] + proximal * (weights[i] - anchor);
      velocity[i] = velocity[i].defined() ? options.momentum * velocity[i] + gradient : gradient;
      weights[i].sub_(options.lr * velocity[i]);
      weights[i].mutable_grad().reset();
    }
  }
  return weights;
}

TEST(Lane, HasNoMemoryForGradientsUntilItTrains) {
  const World world;
  const NetShape large{10, 1, 512, 512};
  Nets nets([large] { return std::make_unique<LinearNet>(large); }, world.feed, false, nullptr,
            false);
  const at::Tensor& gradient = nets[0].gradient;
  const auto bytes = static_cast<std::int64_t>(gradient.nbytes());
  EXPECT_EQ(resident_bytes(gradient.data_ptr(), bytes), 0);
  EXPECT_EQ(gradient.abs().sum().item<double>(), 0.0);
  gradient.fill_(1.0F);
  EXPECT_EQ(gradient.sum().item<double>(), static_cast<double>(gradient.numel()));
  EXPECT_GE(resident_bytes(gradient.data_ptr(), bytes), bytes);
}

TEST(Lane, OneStepFromZeroGivesTheWorkedWeights) {
  const Feed feed(rows_as_images({{1, 2}}), bytes_as_they_are(), 0, at::kCPU);
  Lane lane([] { return std::make_unique<LinearNet>(NetShape{2, 1, 1, 2}); }, feed, false);
  const std::vector<std::int64_t> sample{0};
  const TrainOutcome outcome =
      lane.trainer().train(State::zeros(lane.layout()), {sample, sample},
                           {.epochs = 1, .batch_size = 1, .lr = 0.1, .momentum = 0.9}, {}, kKey);
  // p = (1/2, 1/2), label 0: the gradient of the weights is (p - y) x = -+ (0.5, 1).
  const std::vector<float> expected{0.05F, 0.1F, -0.05F, -0.1F, 0.05F, -0.05F};
  const std::vector<float> values = values_of(outcome.state);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_FLOAT_EQ(values[i], expected[i]);
  }
  EXPECT_EQ(outcome.steps, 1);
  EXPECT_NEAR(outcome.mean_loss, std::log(2.0), 1e-7);
}

TEST(Lane, FullBatchStepEqualsTheSoftmaxGradient) {
  const World world;
  Lane lane = world.lane<LinearNet>();
  const State start = initial<LinearNet>(world);
  const LocalSet set = world.local(0, 20);
  const TrainOutcome outcome =
      lane.trainer().train(start, set, {.epochs = 1, .batch_size = 20, .lr = 0.3}, {}, kKey);

  const at::Tensor x = world.images(at::arange(20, at::kLong)).flatten(1).to(at::kDouble);
  const at::Tensor weight = start.view(*start.layout->find("fc.weight")).to(at::kDouble);
  const at::Tensor bias = start.view(*start.layout->find("fc.bias")).to(at::kDouble);
  at::Tensor error = (x.matmul(weight.t()) + bias).softmax(1);
  for (std::int64_t i = 0; i < 20; ++i) {
    error[i][set.labels[static_cast<std::size_t>(i)]] -= 1.0;
  }
  error /= 20.0;
  const at::Tensor expected =
      at::cat({(weight - 0.3 * error.t().matmul(x)).view(-1), bias - 0.3 * error.sum(0)});
  EXPECT_LT((outcome.state.flat.to(at::kDouble) - expected).abs().max().item<double>(), 1e-6);
  EXPECT_GT((outcome.state.flat - start.flat).abs().max().item<double>(), 1e-2);
}

TEST(Lane, TrainsAsTheLongHandLoopDoes) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  const State start = initial<TwoLayerNet>(world);
  const TrainOptions options{
      .epochs = 3, .batch_size = 7, .lr = 0.05, .momentum = 0.8, .weight_decay = 0.02};
  for (const double proximal : {0.0, 2.0}) {
    const TrainOutcome outcome =
        lane.trainer().train(start, world.local(), options, {.proximal = proximal}, kKey);
    EXPECT_EQ(outcome.steps, 3 * 4);
    const std::vector<at::Tensor> expected =
        train_long_hand(world, start, world.local(), options, proximal);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const at::Tensor trained = outcome.state.view(start.layout->slots()[i]);
      EXPECT_LT((trained - expected[i]).abs().max().item<double>(), 1e-5)
          << "proximal " << proximal;
      EXPECT_GT((trained - start.view(start.layout->slots()[i])).abs().max().item<double>(), 1e-3);
    }
  }
}

// spec: baselines 2; label-noise C.7 #9 guards against an anchor that moves with the weights.
TEST(Lane, ProximalTermStartsAtZeroAndThenHoldsBack) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  const State start = initial<TwoLayerNet>(world);
  const auto train = [&](std::int64_t epochs, double proximal) {
    return lane.trainer()
        .train(start, world.local(), {.epochs = epochs, .batch_size = 25, .lr = 0.1},
               {.proximal = proximal}, kKey)
        .state;
  };
  EXPECT_EQ(hash(train(1, 5.0)), hash(train(1, 0.0)));
  EXPECT_NE(hash(train(2, 5.0)), hash(train(2, 0.0)));
  EXPECT_LT(distance(train(20, 5.0), start), 0.5 * distance(train(20, 0.0), start));
}

TEST(Lane, MeanLossWeighsEverySampleOnce) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  const State start = initial<TwoLayerNet>(world);
  const LocalSet set = world.local(0, 10);
  lane.scorer().load(start);
  const at::Tensor logits = lane.scorer().logits(world.feed, set.samples, 10);
  const at::Tensor labels =
      at::tensor(std::vector<std::int64_t>(set.labels.begin(), set.labels.end()));
  const TrainOptions plain{.epochs = 2, .batch_size = 4, .lr = 0.0};
  EXPECT_NEAR(lane.trainer().train(start, set, plain, {}, kKey).mean_loss,
              smoothed_cross_entropy(logits, labels, 0.0, 1.0).item<double>(), 1e-6);
  TrainOptions smooth = plain;
  smooth.label_smoothing = 0.3;
  smooth.temperature = 4.0;
  EXPECT_NEAR(lane.trainer().train(start, set, smooth, {}, kKey).mean_loss,
              smoothed_cross_entropy(logits, labels, 0.3, 4.0).item<double>(), 1e-6);
}

// A key whose plan keeps the order 0, 1, 2, pairs with 2, 0, 1 and has a lambda near 0.7.
TrainKey mixup_key_of_the_example(const LocalSet& set, const TrainOptions& options) {
  for (std::int64_t round = 0; round < 500'000; ++round) {
    const TrainKey key{1, round, 0};
    const Plan plan = make_plan(set, options, false, key);
    if (std::abs(plan.lambda.item<float>() - 0.7F) < 1e-3F &&
        numbers_of(plan.index) == std::vector<std::int64_t>{0, 1, 2} &&
        numbers_of(plan.partner) == std::vector<std::int64_t>{2, 0, 1}) {
      return key;
    }
  }
  ADD_FAILURE() << "no key found";
  return {};
}

// spec: label-noise A.7 #11
TEST(Lane, MixupMixesImagesAndLosses) {
  const Feed feed(rows_as_images({{1, 2}, {3, 4}, {5, 6}}), bytes_as_they_are(), 0, at::kCPU);
  at::Tensor seen;
  at::Tensor logits = at::tensor({2.0F, 0.0F, 0.0F, 1.0F, 1.0F, 1.0F}).view({3, 2});
  const auto probe = [&] {
    return std::make_unique<ProbeNet>(2, [&](const at::Tensor& images) {
      seen = images.detach().flatten(1).clone();
      return logits;
    });
  };
  Lane lane(probe, feed, false);
  const std::vector<std::int64_t> samples{0, 1, 2};
  const std::vector<std::int64_t> labels{0, 1, 1};
  const TrainOptions options{.epochs = 1, .batch_size = 3, .lr = 0.0, .mixup = 1.0};
  const TrainKey key = mixup_key_of_the_example({samples, labels}, options);
  const double lambda = make_plan({samples, labels}, options, false, key).lambda.item<float>();

  const ProbeNet identity(2, {});
  const TrainOutcome outcome =
      lane.trainer().train(identity.weights().initial(1), {samples, labels}, options, {}, key);
  const std::vector<float> mixed = values_of(seen);
  const std::vector<double> example{2.2, 3.2, 2.4, 3.4, 4.4, 5.4};
  const std::vector<double> first{1, 2, 3, 4, 5, 6};
  const std::vector<double> second{5, 6, 1, 2, 3, 4};
  ASSERT_EQ(mixed.size(), example.size());
  for (std::size_t i = 0; i < example.size(); ++i) {
    EXPECT_NEAR(mixed[i], lambda * first[i] + (1.0 - lambda) * second[i], 1e-6);
    EXPECT_NEAR(mixed[i], example[i], 5e-3);
  }
  EXPECT_NEAR(outcome.mean_loss, lambda * 0.37777896 + (1.0 - lambda) * 1.37777896, 1e-6);
  EXPECT_NEAR(outcome.mean_loss, 0.67777896, 1e-3);
}

TEST(Lane, MixupChangesTrainingAndIsKeyed) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  const State start = initial<TwoLayerNet>(world);
  const auto train = [&](Lane& on, double mixup) {
    return hash(
        on.trainer().train(start, world.local(), {.epochs = 2, .mixup = mixup}, {}, kKey).state);
  };
  Lane other = world.lane<TwoLayerNet>();
  EXPECT_NE(train(lane, 1.0), train(lane, 0.0));
  EXPECT_EQ(train(lane, 1.0), train(other, 1.0));
}

TEST(Lane, ForgetsWhatItDidBefore) {
  const World world;
  const State start = initial<NormNet>(world);
  const State elsewhere = initial<NormNet>(world, 77);
  const TrainOptions options{.epochs = 2, .batch_size = 8, .lr = 0.1, .momentum = 0.9};
  Lane fresh = world.lane<NormNet>(/*augment=*/true);
  const std::string expected =
      hash(fresh.trainer().train(start, world.local(), options, {}, kKey).state);

  Lane used = world.lane<NormNet>(/*augment=*/true);
  used.trainer().train(elsewhere, world.local(20, 40), {.epochs = 1, .batch_size = 40, .lr = 50.0},
                       {.proximal = 3.0}, {1, 1, 1});
  used.scorer().load(elsewhere);
  used.scorer().score(world.test_feed, {std::span(world.samples).first(30), world.data.test.labels},
                      30);
  EXPECT_EQ(hash(used.trainer().train(start, world.local(), options, {}, kKey).state), expected);
  EXPECT_EQ(hash(used.trainer().train(start, world.local(), options, {}, kKey).state), expected);
  EXPECT_NE(hash(used.trainer().train(start, world.local(), options, {}, {5, 2, 10}).state),
            expected);
}

TEST(Lane, AugmentationChangesTraining) {
  const World world;
  const State start = initial<TwoLayerNet>(world);
  Lane plain = world.lane<TwoLayerNet>(false);
  Lane augmented = world.lane<TwoLayerNet>(true);
  EXPECT_FALSE(plain.augment());
  EXPECT_TRUE(augmented.augment());
  EXPECT_NE(hash(plain.trainer().train(start, world.local(), {}, {}, kKey).state),
            hash(augmented.trainer().train(start, world.local(), {}, {}, kKey).state));
}

TEST(Lane, LeavesTheStartAloneAndHandsOutCopies) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  const State start = initial<TwoLayerNet>(world);
  const std::string before = hash(start);
  const TrainOutcome first = lane.trainer().train(start, world.local(), {}, {}, kKey);
  EXPECT_EQ(hash(start), before);
  const std::string kept = hash(first.state);
  EXPECT_NE(kept, before);
  lane.trainer().train(start, world.local(30, 20), {}, {}, kKey);
  lane.scorer().load(State::zeros(lane.layout()));
  EXPECT_EQ(hash(first.state), kept);
  EXPECT_FALSE(first.state.flat.requires_grad());
}

TEST(Lane, TrainingOnNothingReturnsACopyOfTheStart) {
  const World world;
  Lane lane = world.lane<NormNet>();
  const State start = initial<NormNet>(world);
  const std::string before = hash(start);
  const TrainOutcome outcome = lane.trainer().train(start, {}, {}, {}, kKey);
  EXPECT_EQ(hash(outcome.state), before);
  EXPECT_EQ(outcome.steps, 0);
  EXPECT_EQ(outcome.mean_loss, 0.0);
  at::Tensor flat = outcome.state.flat;
  flat.fill_(1.0F);
  EXPECT_EQ(hash(start), before);
}

TEST(Lane, CountsTheStepsOfNetworksWithRunningStatistics) {
  const World world;
  Lane lane = world.lane<NormNet>();
  State start = initial<NormNet>(world);
  start.counters().fill_(40.0F);
  const TrainOutcome outcome =
      lane.trainer().train(start, world.local(), {.epochs = 3, .batch_size = 10}, {}, kKey);
  EXPECT_EQ(outcome.steps, 9);
  EXPECT_EQ(values_of(outcome.state.counters()), (std::vector<float>{49.0F}));
  EXPECT_EQ(values_of(start.counters()), (std::vector<float>{40.0F}));
  EXPECT_FALSE(at::equal(outcome.state.buffers(), start.buffers()));
}

TEST(Lane, LogitsAgreeWithTheForwardPassForAnyBatch) {
  const World world;
  Lane lane = world.lane<NormNet>();
  const State start = initial<NormNet>(world);
  const State trained = lane.trainer().train(start, world.local(), {}, {}, kKey).state;
  lane.scorer().load(trained);

  NormNet net(shape_of(world.data));
  State own = trained.clone();
  net.weights().bind(own.flat, {});
  const std::vector<std::int64_t> samples{7, 3, 3, 50, 0, 21, 59};
  const at::Tensor expected = net.forward(world.images(at::tensor(samples)), Pass{});
  for (const std::int64_t batch : {1, 3, 7, 100}) {
    const at::Tensor logits = lane.scorer().logits(world.feed, samples, batch);
    ASSERT_EQ(logits.sizes(), (std::vector<std::int64_t>{7, 3}));
    EXPECT_LT((logits - expected).abs().max().item<double>(), 1e-5) << batch;
    EXPECT_FALSE(logits.requires_grad());
  }
}

TEST(Lane, LogitsFollowTheJitterOfEachSample) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  lane.scorer().load(initial<TwoLayerNet>(world));
  const std::vector<std::int64_t> samples{4, 5, 6, 7, 8};
  const at::Tensor centre = at::tensor(std::vector<std::int64_t>{4, 4, 0}).repeat({5, 1});
  EXPECT_TRUE(at::equal(lane.scorer().logits(world.feed, samples, 2, centre),
                        lane.scorer().logits(world.feed, samples, 2)));
  at::Tensor last_flipped = centre.clone();
  last_flipped[4][2] = 1;
  const at::Tensor difference = lane.scorer().logits(world.feed, samples, 2, last_flipped) -
                                lane.scorer().logits(world.feed, samples, 2);
  EXPECT_EQ(difference.narrow(0, 0, 4).abs().max().item<float>(), 0.0F);
  EXPECT_GT(difference[4].abs().max().item<float>(), 0.0F);
}

TEST(Lane, ScoresAccuracyAndCrossEntropy) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  lane.scorer().load(
      lane.trainer()
          .train(initial<TwoLayerNet>(world), world.local(0, 60), {.lr = 0.1}, {}, kKey)
          .state);
  const std::vector<std::int64_t> samples = {world.samples.begin(), world.samples.begin() + 30};
  const Score score = lane.scorer().score(world.test_feed, {samples, world.data.test.labels}, 7);
  const at::Tensor log_p = lane.scorer().logits(world.test_feed, samples, 30).log_softmax(1);
  double loss = 0.0;
  std::int64_t correct = 0;
  for (std::int64_t i = 0; i < 30; ++i) {
    const std::int64_t label = world.data.test.labels[static_cast<std::size_t>(i)];
    loss -= log_p[i][label].item<double>();
    correct += log_p[i].argmax().item<std::int64_t>() == label ? 1 : 0;
  }
  EXPECT_EQ(score.count, 30);
  EXPECT_EQ(score.correct, correct);
  EXPECT_GT(score.correct, 10);
  EXPECT_NEAR(score.loss_sum, loss, 1e-4);
  EXPECT_DOUBLE_EQ(score.accuracy(), static_cast<double>(correct) / 30.0);
  EXPECT_EQ(score.top5(), 1.0) << "of three classes";
  EXPECT_DOUBLE_EQ(score.mean_loss(), score.loss_sum / 30.0);
  ASSERT_EQ(score.classes.size(), 3U);
  ClassCount sum;
  for (const ClassCount& one : score.classes) {
    sum.labelled += one.labelled;
    sum.predicted += one.predicted;
    sum.right += one.right;
  }
  EXPECT_EQ(sum.labelled, 30);
  EXPECT_EQ(sum.predicted, 30);
  EXPECT_EQ(sum.right, correct);
}

// spec: partitions M, CHECK of macro F1
TEST(Lane, MeansOverClassesLeaveOutClassesThatNobodyHasOrSays) {
  const std::vector<std::int64_t> labels{0, 0, 0, 0, 1, 1, 2};
  const std::vector<std::int64_t> predicted{0, 0, 0, 1, 1, 0, 4};
  Score score;
  score.classes = count_classes(labels, predicted, 5);
  const MacroScore macro = score.macro();
  EXPECT_DOUBLE_EQ(macro.precision, (0.75 + 0.5 + 0 + 0) / 4);
  EXPECT_DOUBLE_EQ(macro.recall, (0.75 + 0.5 + 0 + 0) / 4);
  EXPECT_DOUBLE_EQ(macro.f1, (0.75 + 0.5 + 0 + 0) / 4);
  Score more;
  more.classes = count_classes(std::vector<std::int64_t>{1, 1}, std::vector<std::int64_t>{1, 0}, 5);
  score += more;
  EXPECT_DOUBLE_EQ(score.macro().precision, (3.0 / 5 + 2.0 / 3) / 4);
  EXPECT_DOUBLE_EQ(score.macro().recall, (3.0 / 4 + 2.0 / 4) / 4);
  EXPECT_DOUBLE_EQ(score.macro().f1, (6.0 / 9 + 4.0 / 7) / 4);
  EXPECT_EQ(Score{}.macro().f1, 0.0);
}

TEST(Lane, CountsLabelsAmongTheFiveLikeliestClasses) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor logits = at::tensor(std::vector<float>{7,   6, 5, 4, 3, 2, 1,  //
                                                          7,   6, 5, 4, 3, 2, 1,  //
                                                          1,   1, 1, 1, 1, 1, 1,  //
                                                          nan, 0, 0, 0, 0, 0, 0,  //
                                                          nan, 0, 0, 0, 0, 0, 0})
                                .view({5, 7});
  // The fifth, the sixth, one of equals, what is no number, and one with something unknown above.
  const auto count = [&](const std::vector<std::int64_t>& labels) {
    return count_among_five(logits, at::tensor(labels, at::kLong));
  };
  EXPECT_EQ(count({4, 4, 0, 1, 1}), 5);
  EXPECT_EQ(count({4, 5, 0, 1, 1}), 4);
  EXPECT_EQ(count({4, 5, 6, 0, 1}), 3);
}

TEST(Lane, ScoresOfPartsAddUp) {
  Score sum{3, 4, 1.5, 4};
  sum += {1, 6, 0.5, 5};
  EXPECT_DOUBLE_EQ(sum.top5(), 0.9);
  EXPECT_EQ(sum.correct, 4);
  EXPECT_EQ(sum.count, 10);
  EXPECT_DOUBLE_EQ(sum.accuracy(), 0.4);
  EXPECT_DOUBLE_EQ(sum.mean_loss(), 0.2);
  EXPECT_EQ(Score{}.accuracy(), 0.0);
  EXPECT_EQ(Score{}.mean_loss(), 0.0);
}

TEST(Lane, ScoreOfNothingIsZero) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  EXPECT_EQ(lane.scorer().score(world.test_feed, {}, 8).count, 0);
}

TEST(Lane, StopsWhenAsked) {
  const World world;
  std::atomic<bool> stop{false};
  Lane lane = world.lane<TwoLayerNet>(false, &stop);
  const State start = initial<TwoLayerNet>(world);
  EXPECT_NO_THROW(lane.trainer().train(start, world.local(), {}, {}, kKey));
  stop = true;
  EXPECT_THROW(lane.trainer().train(start, world.local(), {}, {}, kKey), Interrupted);
  EXPECT_THROW(std::ignore = lane.scorer().logits(world.feed, world.samples, 8), Interrupted);
  EXPECT_THROW(lane.scorer().score(world.feed, world.local(), 8), Interrupted);
  stop = false;
  EXPECT_NO_THROW(lane.scorer().score(world.feed, world.local(), 8));
}

TEST(Lane, AnInterruptedTrainingLeavesNoTrace) {
  const World world;
  std::atomic<bool> stop{false};
  int passes = 0;
  const auto probe = [&] {
    return std::make_unique<ProbeNet>(3, [&](const at::Tensor& images) {
      stop = ++passes == 3;
      return images.flatten(1).narrow(1, 0, 3);
    });
  };
  const State start = probe()->weights().initial(1);
  const TrainOptions options{.epochs = 2, .batch_size = 5};
  Lane lane(probe, world.feed, false, &stop);
  EXPECT_THROW(lane.trainer().train(start, world.local(), options, {}, kKey), Interrupted);
  EXPECT_EQ(passes, 3);
  stop = false;
  const State after = lane.trainer().train(start, world.local(), options, {}, kKey).state;
  Lane fresh(probe, world.feed, false, &stop);
  EXPECT_EQ(hash(after),
            hash(fresh.trainer().train(start, world.local(), options, {}, kKey).state));
}

TEST(Lane, DropoutIsKeyedAndTheLanesOwn) {
  const World world;
  const auto lane = [&] {
    return Lane(make_net(builtin_networks().find("cnn2"), world.data), world.feed, false);
  };
  Lane first = lane();
  Lane second = lane();
  const State start =
      builtin_networks().find("cnn2").make(shape_of(world.data))->weights().initial(1);
  const at::Generator global = at::globalContext().defaultGenerator(at::kCPU);
  const at::Tensor global_before = global.get_state().clone();
  // With one sample the plan is the same for every key: what differs is dropout.
  const auto train = [&](Lane& on, const TrainKey& key) {
    return hash(on.trainer().train(start, world.local(0, 1), {.epochs = 2}, {}, key).state);
  };
  const std::string expected = train(first, kKey);
  EXPECT_EQ(train(second, kKey), expected);
  EXPECT_EQ(train(first, kKey), expected);
  EXPECT_NE(train(first, {6, 2, 9}), expected);
  EXPECT_NE(train(first, {5, 3, 9}), expected);
  EXPECT_NE(train(first, {5, 2, 8}), expected);
  EXPECT_TRUE(at::equal(global.get_state(), global_before));
}

TEST(Lane, LearningRateDecaysByTheRound) {
  const World world;
  Lane lane = world.lane<LinearNet>();
  const State start = initial<LinearNet>(world);
  const auto trained = [&](double lr, double decay, std::int64_t round) {
    return hash(lane.trainer()
                    .train(start, world.local(), {.lr = lr, .lr_decay = decay}, {},
                           {.seed = 5, .round = round, .client = 9})
                    .state);
  };
  EXPECT_EQ(trained(0.2, 0.5, 0), trained(0.2, 1.0, 0));
  EXPECT_EQ(trained(0.2, 0.5, 2), trained(0.05, 1.0, 2));
  const TrainOptions cosine{.lr = 0.2, .lr_schedule = "cosine", .rounds = 4};
  const TrainKey key{.seed = 5, .round = 4, .client = 9};
  EXPECT_EQ(hash(lane.trainer().train(start, world.local(), cosine, {}, key).state),
            trained(0.0, 1.0, 4));
}

TEST(Lane, StepLossWeighsEveryStepOnce) {
  const World world;
  Lane lane = world.lane<LinearNet>();
  const State start = initial<LinearNet>(world);
  // Without learning, 25 samples in batches of 20 and 5.
  const TrainOutcome outcome = lane.trainer().train(
      start, world.local(0, 25), {.epochs = 1, .batch_size = 20, .lr = 0.0}, {}, kKey);
  const Plan plan = make_plan(world.local(0, 25), {.epochs = 1, .batch_size = 20}, false, kKey);
  lane.scorer().load(start);
  const at::Tensor all = losses(
      lane.scorer().logits(world.feed, {plan.index.data_ptr<std::int64_t>(), 25}, 25), plan.label);
  const double first = all.narrow(0, 0, 20).mean().item<double>();
  const double second = all.narrow(0, 20, 5).mean().item<double>();
  EXPECT_NEAR(outcome.step_loss, (first + second) / 2, 1e-6);
  EXPECT_NEAR(outcome.mean_loss, (20 * first + 5 * second) / 25, 1e-6);
  EXPECT_NE(outcome.step_loss, outcome.mean_loss);
}

// spec: label-noise B.8 #6
TEST(Lane, HeadOnlyTrainingLeavesTheBodyBitIdentical) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  const State start = initial<TwoLayerNet>(world);
  const TrainOptions options{.epochs = 1, .batch_size = 5, .lr = 0.1};
  const State trained =
      lane.trainer().train(start, world.local(), options, {.head_only = true}, kKey).state;
  for (const Slot& slot : start.layout->slots()) {
    EXPECT_EQ(trained.view(slot).equal(start.view(slot)), !slot.name.starts_with("fc"))
        << slot.name;
  }
  // It is the head's part of a step of everything.
  const TrainOptions one_step{.epochs = 1, .batch_size = 25, .lr = 0.1};
  const State head =
      lane.trainer().train(start, world.local(), one_step, {.head_only = true}, kKey).state;
  const State whole = lane.trainer().train(start, world.local(), one_step, {}, kKey).state;
  const Slot& weight = *start.layout->find("fc.weight");
  EXPECT_TRUE(at::allclose(head.view(weight), whole.view(weight), 1e-5, 1e-7));
}

// spec: label-noise A.4 #4
TEST(Lane, ThePullCanSpareTheFirstBatchOfEveryEpoch) {
  const World world;
  Lane lane = world.lane<LinearNet>();
  const State start = initial<LinearNet>(world);
  const LocalRule strong{.proximal = 3.0, .pull = Pull::norm, .spare_first_batch = true};
  const auto trained = [&](std::int64_t batch, const LocalRule& rule) {
    return hash(lane.trainer()
                    .train(start, world.local(), {.epochs = 3, .batch_size = batch}, rule, kKey)
                    .state);
  };
  EXPECT_EQ(trained(25, strong), trained(25, {})) << "every batch is the first of its epoch";
  EXPECT_NE(trained(10, strong), trained(10, {}));
}

TEST(Lane, EachBatchShowsFeaturesAndLogits) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  lane.scorer().load(initial<TwoLayerNet>(world));
  std::vector<at::Tensor> logits;
  std::vector<std::int64_t> sizes;
  lane.scorer().each_batch(world.feed, world.local().samples, 10, {}, false,
                           [&](const at::Tensor& features, const at::Tensor& output) {
                             sizes.push_back(features.size(0));
                             EXPECT_EQ(features.size(1), TwoLayerNet::kWidth);
                             EXPECT_FALSE(output.requires_grad());
                             logits.push_back(output);
                           });
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{10, 10, 5}));
  EXPECT_TRUE(at::cat(logits).equal(lane.scorer().logits(world.feed, world.local().samples, 10)));
}

TEST(Lane, ATrainingPassMovesRunningStatisticsAndNothingElse) {
  const World world;
  Lane lane = world.lane<NormNet>();
  const State start = initial<NormNet>(world);
  const auto pass = [&](bool training) {
    lane.scorer().load(start);
    lane.scorer().each_batch(world.feed, world.local().samples, 10, {}, training,
                             [](const at::Tensor&, const at::Tensor&) {});
    return lane.trainer().model();
  };
  EXPECT_EQ(hash(pass(false)), hash(start));
  const State moved = pass(true);
  EXPECT_TRUE(moved.parameters().equal(start.parameters()));
  EXPECT_FALSE(moved.buffers().equal(start.buffers()));
}

TEST(Lane, EachGradientIsThatOfTheLossAndChangesNothing) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  const State start = initial<TwoLayerNet>(world);
  lane.scorer().load(start);
  const LocalSet set = world.local(0, 25);
  std::vector<at::Tensor> gradients;
  lane.scorer().each_gradient(
      set.samples, 25, false, "hidden.weight",
      [&](const at::Tensor& logits, std::int64_t begin) {
        EXPECT_EQ(begin, 0);
        return at::cross_entropy_loss(
            logits, at::tensor(std::vector<std::int64_t>(set.labels.begin(), set.labels.end())));
      },
      [&](const at::Tensor& gradient) { gradients.push_back(gradient.clone()); });
  ASSERT_EQ(gradients.size(), 1U);
  EXPECT_EQ(hash(lane.trainer().model()), hash(start));
  const State step =
      lane.trainer()
          .train(start, set, {.epochs = 1, .batch_size = 25, .lr = 1.0, .momentum = 0.0}, {}, kKey)
          .state;
  const Slot& hidden = *start.layout->find("hidden.weight");
  EXPECT_TRUE(at::allclose(gradients.front(), start.view(hidden) - step.view(hidden), 1e-4, 1e-6));
  EXPECT_EQ(
      error_text([&] { lane.scorer().each_gradient(set.samples, 5, false, "hiden", {}, {}); }),
      "the network has no parameter named 'hiden'");
}

TEST(Lane, OutputTakesNetworkInputAsItIs) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  lane.scorer().load(initial<TwoLayerNet>(world));
  EXPECT_EQ(lane.input_shape(), (std::vector<std::int64_t>{1, 8, 8}));
  const at::Tensor images = world.images(at::arange(4, at::kLong));
  EXPECT_TRUE(at::allclose(lane.scorer().output(images),
                           lane.scorer().logits(world.feed, world.local(0, 4).samples, 4), 1e-5,
                           1e-6));
}

// The sum of two models' cross-entropies.
class Pair final : public Objective {
 public:
  at::Tensor loss(const Batch& batch, const Models& models) const override {
    EXPECT_FALSE(batch.entries.defined());
    return at::cross_entropy_loss(models.logits(0, batch.images), batch.labels) +
           at::cross_entropy_loss(models.logits(1, batch.images), batch.labels);
  }
  std::string signature() const override { return "pair"; }
};

TEST(LaneObjective, TwoModelsTrainAsTwoTrainingsWould) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  const State first = initial<TwoLayerNet>(world, 1);
  const State second = initial<TwoLayerNet>(world, 2);
  const TrainOptions options{.epochs = 2, .batch_size = 5, .momentum = 0.5};
  const State alone = lane.trainer().train(second, world.local(), options, {}, kKey).state;
  const Plan plan = make_plan(world.local(), options, false, kKey);
  const Stepping both{.lr = options.lr, .momentum = 0.5, .models = {0, 1}};
  lane.trainer().begin({first, second}, kKey);
  lane.trainer().run(plan, Pair(), both);
  EXPECT_EQ(hash(lane.trainer().model(1)), hash(alone));
  EXPECT_EQ(hash(lane.trainer().model(0)),
            hash(lane.trainer().train(first, world.local(), options, {}, kKey).state));
}

TEST(LaneObjective, ModelsThatTakeNoStepStayAsTheyAre) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  const State first = initial<TwoLayerNet>(world, 1);
  const State second = initial<TwoLayerNet>(world, 2);
  lane.trainer().begin({first, second}, kKey);
  lane.trainer().run(make_plan(world.local(), {}, false, kKey), CrossEntropy({}),
                     {.weight_decay = 0.1});
  EXPECT_EQ(hash(lane.trainer().model(1)), hash(second));
  EXPECT_NE(hash(lane.trainer().model(0)), hash(first));
}

TEST(LaneObjective, EpochByEpochIsTheSameAsAtOnce) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>(true);
  const State start = initial<TwoLayerNet>(world);
  const TrainOptions options{.epochs = 3, .batch_size = 10, .momentum = 0.9, .mixup = 1.0};
  const State at_once =
      lane.trainer().train(start, world.local(), options, {.proximal = 0.1}, kKey).state;
  const Plan plan = make_plan(world.local(), options, true, kKey);
  lane.trainer().begin({start}, kKey);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    lane.trainer().run(plan.epoch(epoch, 3), CrossEntropy(options),
                       {.lr = options.lr, .momentum = 0.9, .rule = {.proximal = 0.1}});
  }
  EXPECT_EQ(hash(lane.trainer().model()), hash(at_once));
}

// Keeps what it sees of a batch in the lane's buffers.
class Notes final : public Objective {
 public:
  explicit Notes(Lane& lane) : seen_(lane.trainer().buffer("seen", 60, {}, at::kLong)) {}
  at::Tensor loss(const Batch& batch, const Models& models) const override {
    seen_.index_add_(0, batch.entries, batch.step.expand({batch.labels.size(0)}) + 1);
    images = batch.images;
    return models.logits(0, batch.images).sum() * 0.0;
  }
  std::string signature() const override { return "notes"; }
  bool reads_entries() const override { return true; }

  mutable at::Tensor images;

 private:
  mutable at::Tensor seen_;
};

TEST(LaneObjective, SeesEntriesStepsAndSeveralViews) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>(true);
  const TrainOptions options{.epochs = 2, .batch_size = 10};
  const Plan plan = make_plan(world.local(0, 25), options, true, kKey, 2);
  lane.trainer().begin({initial<TwoLayerNet>(world)}, kKey);
  const Notes notes(lane);
  lane.trainer().run(plan, notes, {.lr = 0.0});
  const at::Tensor seen = lane.trainer().buffer("seen", 60, {}, at::kLong);
  EXPECT_EQ(seen[0].item<std::int64_t>(), 1);
  EXPECT_EQ(seen[24].item<std::int64_t>(), 3);
  EXPECT_EQ(seen[49].item<std::int64_t>(), 6) << "the last batch of the second epoch";
  EXPECT_EQ(notes.images.size(0), 10) << "five samples, two views";
  at::Tensor buffer;
  const auto view = [&](std::int64_t number) {
    return world.feed
        .batch(plan.index.narrow(0, 45, 5), plan.jitter.narrow(0, number * 50 + 45, 5), buffer)
        .clone();
  };
  EXPECT_TRUE(notes.images.narrow(0, 0, 5).equal(view(0)));
  EXPECT_TRUE(notes.images.narrow(0, 5, 5).equal(view(1)));
}

TEST(LaneObjective, BuffersKeepTheirValuesUntilALargerOneIsNeeded) {
  const World world;
  Lane lane = world.lane<TwoLayerNet>();
  lane.trainer().buffer("a", 3, {2}, at::kFloat).fill_(7);
  EXPECT_EQ(lane.trainer().buffer("a", 4, {2}, at::kFloat).sum().item<float>(), 84.0F)
      << "room for six";
  EXPECT_EQ(lane.trainer().buffer("a", 7, {2}, at::kFloat).size(0), 14);
  EXPECT_EQ(lane.trainer().buffer("a", 7, {3}, at::kFloat).size(1), 3);
}

}  // namespace winnow::lane_test
