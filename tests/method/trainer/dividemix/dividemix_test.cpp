#include "winnow/method/trainer/dividemix/dividemix.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "method/one_client.h"
#include "method/small_federation.h"
#include "winnow/method/clean_set.h"
#include "winnow/method/local_training.h"
#include "winnow/method/trainer/dividemix/mix_plan.h"
#include "winnow/method/trainer/dividemix/objective.h"
#include "winnow/stats/mixture.h"
#include "winnow/train/loss.h"
#include "winnow/train/soft_loss.h"

namespace winnow::dividemix::dividemix_test {

at::Tensor row(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble).view({1, -1});
}

void expect_row(const at::Tensor& actual, const std::vector<double>& expected) {
  EXPECT_TRUE(at::allclose(actual, row(expected), 0.0, 1e-6)) << actual;
}

// spec: baselines 24
TEST(DivideMix, MixtureOfLosses) {
  const std::vector<double> losses{0, .1, .2, .3, .8, .9, 1};
  const Mixture mixture = gmm2(losses, {.tol = 1e-2, .reg = 5e-4, .max_iter = 100});
  EXPECT_EQ(mixture.iterations, 2);
  EXPECT_NEAR(mixture.means[0], 0.15, 1e-4);
  EXPECT_NEAR(mixture.means[1], 0.9, 1e-4);
  EXPECT_NEAR(mixture.variances[0], 0.013, 1e-4);
  EXPECT_NEAR(mixture.variances[1], 0.007167, 1e-4);
  EXPECT_NEAR(mixture.weights[0], 4.0 / 7.0, 1e-4);
  const std::vector<double> clean = clean_probability(losses);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_NEAR(clean[i], i < 4 ? 1.0 : 0.0, 1e-3);
  }
  EXPECT_EQ(clean_probability({.4, .4, .4}), (std::vector<double>{1, 1, 1})) << "all clean";
}

// spec: baselines 24
TEST(DivideMix, SharpensAndRefines) {
  expect_row(sharpen(row({.6, .3, .1}), 0.5), {.782609, .195652, .021739});
  const at::Tensor trust = at::full({1}, 0.8, at::kDouble);
  expect_row(refine(trust, row({0, 1, 0}), row({.6, .3, .1}), 1.0), {.12, .86, .02});
  expect_row(refine(trust, row({0, 1, 0}), row({.6, .3, .1}), 0.5), {.019088, .980382, .000530});
}

// spec: baselines 24
TEST(DivideMix, TheUnlabelledPartGainsWeightAfterTheWarmUp) {
  EXPECT_EQ(unlabelled_weight(99.5, 25, 100, 16), 0.0);
  EXPECT_EQ(unlabelled_weight(100, 25, 100, 16), 0.0);
  EXPECT_EQ(unlabelled_weight(104, 25, 100, 16), 6.25);
  EXPECT_EQ(unlabelled_weight(108, 25, 100, 16), 12.5);
  EXPECT_EQ(unlabelled_weight(116, 25, 100, 16), 25.0);
  EXPECT_EQ(unlabelled_weight(300, 25, 100, 16), 25.0);
  EXPECT_EQ(unlabelled_weight(100, 25, 100, 0), 25.0) << "at once";
}

// One step of a network computed from its parts. Without augmentation both views are the same, and
// this network's outputs do not depend on the batch.
TEST(DivideMix, AStepMinimisesWhatTheSpecificationSays) {
  for (const bool unlabelled : {true, false}) {
    OneClient client({.lr = 0.0}, 12);
    const std::vector<double> clean(12, 0.8);
    std::vector<double> split = clean;
    if (unlabelled) {
      std::fill(split.begin() + 7, split.end(), 0.1);
    }
    const MixPlan made = make_mix_plan(client.set(), split, {.batch_size = 20}, 3);
    const MixBuffers buffers{.clean = fill(client.lane.trainer(), "clean", made.clean),
                             .partner = fill(client.lane.trainer(), "partner", made.partner),
                             .lambda = fill(client.lane.trainer(), "lambda", made.lambda),
                             .weight = fill(client.lane.trainer(), "weight", at::full({1}, 6.25F))};
    client.lane.trainer().begin({client.initial(1), client.initial(2)}, {1, 2, 3});
    const double measured =
        client.lane.trainer()
            .run(made.plan, MixObjective(buffers, 1, unlabelled, 0.5), {.models = {1}})
            .item<double>();

    client.lane.trainer().begin({client.initial(1), client.initial(2)}, {1, 2, 3});
    const std::int64_t size = made.plan.entries();
    const std::int64_t labelled = unlabelled ? size / 2 : size;
    const auto predicted = [&](std::size_t network) {
      const std::span<const std::int64_t> index(made.plan.index.data_ptr<std::int64_t>(),
                                                static_cast<std::size_t>(size));
      return client.lane.scorer().logits(client.feed, index, 99, {}, network).softmax(1);
    };
    at::Tensor targets = (predicted(0) + predicted(1)) / 2;
    targets.narrow(0, 0, labelled)
        .copy_(0.8 * one_hot_rows(made.plan.label.narrow(0, 0, labelled), 3) +
               0.2 * predicted(1).narrow(0, 0, labelled));
    targets = sharpen(targets, 0.5).repeat({2, 1});
    at::Tensor buffer;
    const at::Tensor images = client.feed.batch(made.plan.index, {}, buffer).repeat({2, 1, 1, 1});
    const at::Tensor partner = made.partner.t().reshape({-1});
    const double share = made.lambda.item<double>();
    const auto mixed = [&](const at::Tensor& rows) {
      return share * rows + (1 - share) * rows.index_select(0, partner);
    };
    client.lane.scorer().load(client.initial(2));
    const at::Tensor outputs = client.lane.scorer().output(mixed(images));
    targets = mixed(targets);
    double expected = uniformity_penalty(outputs).item<double>();
    double cross_entropy = 0.0;
    double error = 0.0;
    for (std::int64_t i = 0; i < 2 * size; ++i) {
      const at::Tensor log_p = outputs[i].log_softmax(0);
      if (i % size < labelled) {
        cross_entropy -= (targets[i] * log_p).sum().item<double>();
      } else {
        error += (targets[i] - log_p.exp()).square().sum().item<double>();
      }
    }
    expected += cross_entropy / static_cast<double>(2 * labelled);
    expected += unlabelled ? 6.25 * error / static_cast<double>(2 * labelled * 3) : 0.0;
    EXPECT_NEAR(measured, expected, 1e-4) << (unlabelled ? "both parts" : "labelled alone");
  }
}

TEST(DivideMix, TheOtherNetworkHelpsAndStaysAsItIs) {
  OneClient<NormNet> client({}, 12, true);
  std::vector<double> split(12, 0.8);
  split.back() = 0.1;
  const MixPlan made = make_mix_plan(client.set(), split, {.batch_size = 4, .augment = true}, 3);
  const MixBuffers buffers{.clean = fill(client.lane.trainer(), "clean", made.clean),
                           .partner = fill(client.lane.trainer(), "partner", made.partner),
                           .lambda = fill(client.lane.trainer(), "lambda", made.lambda),
                           .weight = fill(client.lane.trainer(), "weight", at::full({3}, 25.0F))};
  const auto trained = [&](const State& helper) {
    client.lane.trainer().begin({client.initial(1), helper}, {1, 2, 3});
    client.lane.trainer().run(made.plan, MixObjective(buffers, 0, true, 0.5), {.lr = 0.1});
    EXPECT_EQ(hash(client.lane.trainer().model(1)), hash(helper));
    return hash(client.lane.trainer().model(0));
  };
  EXPECT_NE(trained(client.initial(2)), trained(client.initial(3)));
}

TEST(DivideMix, WarmUpTrainsBothAsFedAvgDoes) {
  OneClient<NormNet> client;
  const State first = client.initial(1);
  const State second = client.initial(2);
  const Message reply = client.train(*make_with<DivideMix>({{"warmup", 4}}), 3, first, second);
  EXPECT_EQ(model_hash(reply), hash(client.plain(first, 3)));
  EXPECT_EQ(model_hash(reply, "second"), hash(client.plain(second, 3)));
  EXPECT_EQ(client.steps, 12);
  EXPECT_TRUE(client.memory.empty());
}

TEST(DivideMix, TrainsBothOnTheOthersSplitAfterIt) {
  OneClient<NormNet> client({.epochs = 2, .batch_size = 4, .lr = 0.05}, 20, true);
  const auto method = make_with<DivideMix>({{"warmup", 4}});
  const State first = client.initial(1);
  const State second = client.initial(2);
  const Message reply = client.train(*method, 6, first, second);
  EXPECT_NE(model_hash(reply), hash(first));
  EXPECT_NE(model_hash(reply, "second"), hash(second));
  EXPECT_TRUE(reply.get<State>("model").flat.isfinite().all().item<bool>());
  ASSERT_TRUE(client.memory.trace.selected.has_value());
  EXPECT_EQ(client.memory.trace.selected->size(), 20U);
  EXPECT_GT(client.steps, 3);
  EXPECT_LE(client.steps, 20);
  EXPECT_TRUE(client.memory.own.tensors.empty());

  OneClient<NormNet> other({.epochs = 2, .batch_size = 4, .lr = 0.05}, 20, true);
  other.train(*method, 5, second, first);
  const Message again = other.train(*method, 6, first, second);
  EXPECT_EQ(model_hash(again), model_hash(reply)) << "a used lane leaves no trace";
  EXPECT_EQ(model_hash(again, "second"), model_hash(reply, "second"));
}

TEST(DivideMix, RemembersTheSplitThatTheFirstNetworkTrainsOn) {
  OneClient client({.epochs = 1, .batch_size = 4}, 20);
  const State first = client.initial(1);
  const State second = client.initial(2);
  client.train(*make_with<DivideMix>({{"warmup", 0}}), 6, first, second);
  client.lane.scorer().load(second);
  const at::Tensor losses =
      at::cross_entropy_loss(client.lane.scorer().logits(client.feed, client.held.samples, 20),
                             at::tensor(client.held.given), {}, at::Reduction::None)
          .to(at::kDouble)
          .contiguous();
  const auto* from = losses.data_ptr<double>();
  EXPECT_EQ(*client.memory.trace.selected, clean_mask(clean_probability({from, from + 20}), 0.5))
      << "by the losses of the second";
  EXPECT_GT(std::ranges::count(*client.memory.trace.selected, false), 0);
}

// NormNet without running statistics: a sample's score depends on its batch.
class BatchNet final : public Net {
 public:
  explicit BatchNet(const NetShape& shape)
      : conv_(weights_, "conv", {.in = shape.channels, .out = NormNet::kWidth, .padding = 1}),
        norm_(weights_, "norm", NormNet::kWidth, Statistics::batch) {
    declare_head("fc", NormNet::kWidth, shape.classes, init::fan_in_uniform(NormNet::kWidth),
                 init::fan_in_uniform(NormNet::kWidth));
  }
  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    return global_average_pool(relu_in_place(norm_(conv_(images, pass), pass)));
  }

 private:
  Conv conv_;
  BatchNorm norm_;
};

// A threshold halfway between two probabilities of one sample tells apart how it was scored.
TEST(DivideMix, ScoresAugmentedImagesInSmallBatchesWhenTold) {
  OneClient<BatchNet> client({.epochs = 1, .batch_size = 4, .lr = 0.0}, 20, true);
  const State first = client.initial(1);
  const State second = client.initial(2);
  ClientContext context(OneClient<>::kId, client.held, client.memory, client.lane, client.options,
                        OneClient<>::kSeed);
  const auto probabilities = [&](const Jitter& view, std::int64_t batch) {
    client.lane.scorer().load(second);
    const std::vector<float> values =
        values_of(losses(client.lane.scorer().logits(client.feed, client.held.samples, batch, view),
                         at::tensor(client.held.given, at::kLong)));
    return clean_probability({values.begin(), values.end()});
  };
  const auto chosen = [&](Json table, double threshold) {
    table["warmup"] = 0;
    table["threshold"] = threshold;
    client.train(*make_with<DivideMix>(table), 6, first, second);
    return *client.memory.trace.selected;
  };
  const std::vector<double> plain = probabilities({}, 128);
  const auto check = [&](const Json& table, const std::vector<double>& other) {
    std::size_t most = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      most = std::abs(plain[i] - other[i]) > std::abs(plain[most] - other[most]) ? i : most;
    }
    ASSERT_NE(plain[most], other[most]) << "the test would show nothing";
    const double threshold = (plain[most] + other[most]) / 2.0;
    EXPECT_EQ(chosen(Json::object(), threshold), clean_mask(plain, threshold));
    EXPECT_EQ(chosen(table, threshold), clean_mask(other, threshold)) << table.dump();
    EXPECT_NE(clean_mask(plain, threshold), clean_mask(other, threshold));
  };
  const Jitter view = context.draw_view("dividemix score 0 1", 6);
  check({{"score_view", "augmented"}}, probabilities(view, 128));
  check({{"score_batch", 7}}, probabilities({}, 7));
  check({{"score_view", "augmented"}, {"score_batch", 7}}, probabilities(view, 7));
}

TEST(DivideMix, WithoutACleanSampleAnEpochIsPlain) {
  OneClient<NormNet> client;
  const State first = client.initial(1);
  const State second = client.initial(2);
  const auto method = make_with<DivideMix>({{"warmup", 0}, {"threshold", 1.0}});
  const Message reply = client.train(*method, 3, first, second);
  EXPECT_EQ(model_hash(reply), hash(client.plain(first, 3)));
  EXPECT_EQ(model_hash(reply, "second"), hash(client.plain(second, 3)));
  EXPECT_EQ(*client.memory.trace.selected, std::vector<bool>(12, true));
}

TEST(DivideMix, EqualLossesAreAllClean) {
  OneClient client({.epochs = 1, .batch_size = 5});
  const State zero = State::zeros(client.lane.layout());
  client.train(*make_with<DivideMix>({{"warmup", 0}}), 3, zero, zero);
  EXPECT_EQ(*client.memory.trace.selected, std::vector<bool>(12, true));
  EXPECT_EQ(client.steps, 6);
}

TEST(DivideMix, ASingleSampleAndADivergedModelAreNoError) {
  OneClient alone({.epochs = 2, .batch_size = 5}, 1);
  const auto method = make_with<DivideMix>({{"warmup", 0}});
  alone.train(*method, 3, alone.initial(1), alone.initial(2));
  EXPECT_EQ(alone.steps, 4);
  OneClient client;
  State broken = client.initial(1);
  broken.flat.fill_(std::numeric_limits<float>::quiet_NaN());
  const Message reply = client.train(*method, 3, client.initial(2), broken);
  EXPECT_FALSE(reply.get<State>("second").flat.isfinite().all().item<bool>());
}

TEST(DivideMix, HasEpochsOfItsOwnAfterTheWarmUp) {
  OneClient client({.epochs = 2, .batch_size = 5});
  const auto method = make_with<DivideMix>({{"warmup", 3}, {"epochs", 4}, {"threshold", 1.0}});
  client.train(*method, 2, client.initial(1), client.initial(2));
  EXPECT_EQ(client.steps, 2 * 2 * 3);
  client.train(*method, 3, client.initial(1), client.initial(2));
  EXPECT_EQ(client.steps, 2 * 4 * 3);
}

TEST(DivideMix, NotesItsPhase) {
  const auto method = make_with<DivideMix>({{"warmup", 2}});
  EXPECT_EQ(notes_of_twins(*method, 1).at("phase"), "warm-up");
  EXPECT_EQ(notes_of_twins(*method, 2).at("phase"), "mix");
  EXPECT_EQ(error_kind([&] { method->check({.rounds = 2}); }), ErrorKind::experiment);
}

// spec: baselines 24
TEST(DivideMix, HasTheSpecsDefaults) {
  EXPECT_EQ(defaults_of<DivideMix>(), (Json{{"warmup", 100},
                                            {"lambda_u", 25.0},
                                            {"ramp", 16},
                                            {"temperature", 0.5},
                                            {"alpha", 4.0},
                                            {"threshold", 0.5},
                                            {"epochs", 0},
                                            {"score_view", "clean"},
                                            {"score_batch", 0}}));
}

}  // namespace winnow::dividemix::dividemix_test
