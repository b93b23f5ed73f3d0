#include "winnow/method/system/fedcorr/client.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testing/support.h"
#include "winnow/federation/aggregation.h"
#include "winnow/method/system/fedcorr/fedcorr.h"
#include "winnow/stats/lid.h"
#include "winnow/train/loss.h"

namespace winnow::fedcorr::client_test {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kId = 3;
constexpr std::uint64_t kSeed = 5;

// One client of the tiny data set with a lane of its own.
struct OneClient {
  explicit OneClient(std::int64_t samples = 30, bool augment = false)
      : data(tiny_data()),
        feed(data.train.images, data.normalisation, 0, at::kCPU),
        lane(make_net<TwoLayerNet>(data), feed, augment),
        held(deal(data, {samples}).front()),
        start(TwoLayerNet(shape_of(data)).weights().initial(1)) {}

  Message send(const Options& options, const Message& task) {
    ClientContext context(kId, held, memory, lane, train, kSeed);
    const Client client(options, FedAvg().client_side());
    EXPECT_NO_THROW(check(task, FedCorr().exchanges({})));
    Message reply = client.handle(task, context);
    EXPECT_NO_THROW(check(reply, FedCorr().exchanges({})));
    steps = context.steps();
    return reply;
  }
  Message train1(const Options& options = {}, std::uint32_t round = 2) {
    return send(options, Message("train1").set("round", round).set("model", start));
  }
  Message correct1(const Options& options, const State& model, std::uint32_t round = 2) {
    return send(options, Message("correct1").set("round", round).set("model", model));
  }
  // What the lane makes of `start` in round 2 with these labels.
  State trained(double mixup, const LocalRule& rule = {}) {
    TrainOptions mixed = train;
    mixed.mixup = mixup;
    return lane.trainer()
        .train(start, {held.samples, held.given}, mixed, rule, {kSeed, 2, kId})
        .state;
  }
  at::Tensor logits(const State& model, const Jitter& jitter = {}) {
    lane.scorer().load(model);
    return lane.scorer().logits(feed, held.samples, 100, jitter);
  }
  double lid_of(const at::Tensor& outputs, std::size_t k = 20) const {
    const at::Tensor rows = outputs.softmax(1).contiguous();
    return mean_lid({rows.data_ptr<float>(), static_cast<std::size_t>(rows.numel())}, 3, k);
  }
  at::Tensor given() const { return at::tensor(held.given, at::kLong); }
  // A model that says `label` of every image with the given confidence.
  State constant(std::int64_t label, double confidence) const {
    State state = State::zeros(start.layout);
    const Slot& bias = *state.layout->find("fc.bias");
    state.flat[bias.offset + label] = std::log(2.0 * confidence / (1.0 - confidence));
    return state;
  }
  void remember_losses(const std::vector<float>& losses) {
    memory.own.tensors["losses"] = at::tensor(losses);
  }

  DataSet data;
  Feed feed;
  Lane lane;
  ClientData held;
  State start;
  ClientMemory memory;
  TrainOptions train{.epochs = 2, .batch_size = 8, .lr = 0.1, .mixup = 0.0};
  std::int64_t steps = 0;
};

const std::vector<float> kWorkedLosses{1.47F, 1.48F, 1.49F, 1.50F, 1.52F,
                                       1.55F, 2.30F, 2.40F, 2.42F, 2.45F};

// spec: label-noise A.3 stage1_train
TEST(FedCorrClient, TrainsWithMixupAndReportsTheLid) {
  OneClient one;
  const Message reply = one.train1();
  EXPECT_EQ(reply.kind(), "train1_done");
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 30U);
  EXPECT_EQ(one.steps, 8);
  const State expected = one.trained(1.0);
  EXPECT_EQ(hash(reply.get<State>("model")), hash(expected));
  EXPECT_EQ(reply.get<double>("lid"), one.lid_of(one.logits(expected)));
  EXPECT_TRUE(one.memory.own.tensors.at("losses").equal(
      double_softmax_losses(one.logits(expected), one.given())));
  EXPECT_FALSE(one.memory.trace.labels) << "no label changes in a turn";
  EXPECT_TRUE(one.memory.own.values.empty());
}

TEST(FedCorrClient, ScoresByTheChosenReading) {
  OneClient one;
  const Message reply = one.train1({.lid_neighbours = 5, .mixup = 0.0, .loss = fedcorr::Loss::ce});
  const State expected = one.trained(0.0);
  EXPECT_EQ(reply.get<double>("lid"), one.lid_of(one.logits(expected), 5));
  EXPECT_TRUE(one.memory.own.tensors.at("losses").equal(losses(one.logits(expected), one.given())));
}

TEST(FedCorrClient, ReplacesTheExperimentsMixup) {
  OneClient one;
  one.train.mixup = 0.3;
  EXPECT_EQ(hash(one.train1({.mixup = 2.0}).get<State>("model")), hash(one.trained(2.0)));
  EXPECT_EQ(hash(one.train1({.mixup = 0.0}).get<State>("model")), hash(one.trained(0.0)));
  EXPECT_NE(hash(one.trained(0.0)), hash(one.trained(2.0)));
}

// spec: label-noise A.4 #4
TEST(FedCorrClient, IsPulledByItsEstimatedNoise) {
  OneClient one;
  one.memory.own.values["muhat"] = 0.4;
  const State by_norm = one.train1().get<State>("model");
  EXPECT_EQ(
      hash(by_norm),
      hash(one.trained(1.0, {.proximal = 2.0, .pull = Pull::norm, .spare_first_batch = true})));
  const State squared = one.train1({.pull = Pull::square}).get<State>("model");
  EXPECT_EQ(hash(squared), hash(one.trained(1.0, {.proximal = 4.0, .pull = Pull::square})));
  EXPECT_LT(distance(by_norm, one.start), distance(one.trained(1.0), one.start));
  EXPECT_LT(distance(squared, one.start), distance(one.trained(1.0), one.start));
}

// spec: label-noise A.7 #10
TEST(FedCorrClient, IsNotPulledInTheFirstBatchOfAnEpochNorWithoutNoise) {
  OneClient one;
  one.train.batch_size = 30;  // every batch is the first of its epoch
  one.memory.own.values["muhat"] = 0.4;
  EXPECT_EQ(hash(one.train1().get<State>("model")), hash(one.trained(1.0)));
  EXPECT_NE(hash(one.train1({.pull = Pull::square}).get<State>("model")), hash(one.trained(1.0)))
      << "the paper's pull spares no batch: the second epoch starts away from the received model";
  one.train.batch_size = 8;
  EXPECT_NE(hash(one.train1().get<State>("model")), hash(one.trained(1.0)));
  EXPECT_EQ(hash(one.train1({.beta = 0.0}).get<State>("model")), hash(one.trained(1.0)));
  one.memory = {};
  EXPECT_EQ(hash(one.train1().get<State>("model")), hash(one.trained(1.0)));
}

// spec: label-noise A.4 #14
TEST(FedCorrClient, ScoresOneAugmentedViewOrTheCleanOne) {
  OneClient one(30, true);
  const State expected = one.trained(1.0);
  const Jitter view =
      draw_jitter(30, stream_key(kSeed, "fedcorr score", {2, static_cast<std::uint64_t>(kId)}));
  const double augmented = one.lid_of(one.logits(expected, view));
  const double clean = one.lid_of(one.logits(expected));
  EXPECT_NE(augmented, clean);
  EXPECT_EQ(one.train1().get<double>("lid"), augmented);
  EXPECT_EQ(one.train1({.score_view = ScoreView::clean}).get<double>("lid"), clean);
}

TEST(FedCorrClient, RelabelsFromAViewOfItsOwn) {
  OneClient one(30, true);
  // A random linear reading of the images, so that crops change predictions.
  State model = one.trained(0.0);
  model.flat = model.flat * 3.0;
  const auto labels_after = [&](const Options& options) {
    one.memory = {};
    one.send(options, Message("correct_all").set("model", model));
    return one.memory.trace.labels.value_or(one.held.given);
  };
  const auto expected = [&](const Jitter& view) {
    return numbers_of(one.logits(model, view).argmax(1));
  };
  const Jitter view = draw_jitter(
      30, stream_key(kSeed, "fedcorr relabel all", {0, static_cast<std::uint64_t>(kId)}));
  EXPECT_NE(expected(view), expected({})) << "the test would show nothing";
  EXPECT_EQ(labels_after({.theta = 0.0}), expected(view));
  EXPECT_EQ(labels_after({.theta = 0.0, .score_view = ScoreView::clean}), expected({}));
}

// spec: label-noise A.4 #16
TEST(FedCorrClient, WithOneSampleReportsZero) {
  OneClient one(1);
  const Message reply = one.train1();
  EXPECT_EQ(reply.get<double>("lid"), 0.0);
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 1U);
  EXPECT_TRUE(one.memory.empty());
}

TEST(FedCorrClient, ReportsNoLidWhenItsModelIsNotFinite) {
  OneClient one;
  one.remember_losses({1.0F, 2.0F});
  one.start.flat = at::full_like(one.start.flat, std::numeric_limits<float>::quiet_NaN());
  const Message reply = one.train1();
  EXPECT_TRUE(std::isnan(reply.get<double>("lid")));
  EXPECT_FALSE(all_finite(reply.get<State>("model")));
  EXPECT_TRUE(one.memory.empty()) << "losses of an earlier iteration are gone";
}

// spec: label-noise A.7 #8
TEST(FedCorrClient, RelabelsTheLargestLossesWithTheModelItIsSent) {
  OneClient one(10);
  one.remember_losses(kWorkedLosses);
  one.held.given.assign(10, 0);
  const Message reply = one.correct1({}, one.constant(2, 0.8));
  EXPECT_EQ(reply.kind(), "correct1_done");
  EXPECT_DOUBLE_EQ(reply.get<double>("muhat"), 0.4);
  EXPECT_EQ(reply.get<std::uint32_t>("relabelled"), 2U);
  EXPECT_THAT(one.memory.trace.labels.value(), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 2, 2));
  EXPECT_EQ(one.memory.own.values["muhat"], Json(0.4));
  EXPECT_FALSE(one.memory.own.tensors.contains("losses")) << "kept until the correction only";
  EXPECT_THAT(one.memory.trace.suspected.value(),
              ElementsAre(false, false, false, false, false, false, true, true, true, true));
  EXPECT_EQ(one.steps, 0);
  EXPECT_EQ(reply.bytes(), 12);
}

// spec: label-noise A.4 #3: the paper ranks by the losses of the model that relabels
TEST(FedCorrClient, RanksByTheLossesOfTheModelItIsSentWhenTold) {
  OneClient one(10);
  const State model = one.trained(0.0);
  one.held.given.assign(10, 0);
  const at::Tensor outputs = one.logits(model);
  const std::vector<std::int64_t> said = numbers_of(outputs.argmax(1));
  const at::Tensor losses = sample_losses(outputs, one.given(), {.loss = fedcorr::Loss::ce});
  const std::vector<std::int64_t> order = numbers_of(losses.argsort(0, true));
  const auto expected = [&](const std::vector<std::int64_t>& places) {
    Labels labels = one.held.given;
    for (const std::int64_t place : places) {
      labels[static_cast<std::size_t>(place)] = said[static_cast<std::size_t>(place)];
    }
    return labels;
  };
  const auto after = [&](const Options& options) {
    one.memory = {};
    one.remember_losses(kWorkedLosses);
    one.correct1(options, model);
    return one.memory.trace.labels.value_or(one.held.given);
  };
  EXPECT_NE(expected({order[0], order[1]}), expected({9, 8})) << "the test would show nothing";
  EXPECT_EQ(after({.theta = 0.0, .loss = fedcorr::Loss::ce}), expected({9, 8}));
  EXPECT_EQ(after({.theta = 0.0, .loss = fedcorr::Loss::ce, .rank = fedcorr::Rank::global}),
            expected({order[0], order[1]}));
}

TEST(FedCorrClient, LeavesLabelsAloneWithoutConfidence) {
  OneClient one(10);
  for (const double theta : {0.81, 1.0}) {
    one.remember_losses(kWorkedLosses);
    const Message reply = one.correct1({.theta = theta}, one.constant(2, 0.8));
    EXPECT_DOUBLE_EQ(reply.get<double>("muhat"), 0.4);
    EXPECT_EQ(reply.get<std::uint32_t>("relabelled"), 0U);
    EXPECT_FALSE(one.memory.trace.labels);
  }
}

TEST(FedCorrClient, WithoutCorrectionOnlyEstimates) {
  OneClient one(10);
  one.remember_losses(kWorkedLosses);
  const Message reply = one.correct1({.correction = false}, one.constant(2, 0.8));
  EXPECT_DOUBLE_EQ(reply.get<double>("muhat"), 0.4);
  EXPECT_EQ(reply.get<std::uint32_t>("relabelled"), 0U);
  EXPECT_FALSE(one.memory.trace.labels);
  EXPECT_EQ(one.memory.own.values["muhat"], Json(0.4));
}

TEST(FedCorrClient, KeepsItsEstimateWithoutLosses) {
  OneClient one(10);
  EXPECT_EQ(one.correct1({}, one.constant(2, 0.8)).get<double>("muhat"), 0.0);
  EXPECT_TRUE(one.memory.empty());
  one.memory.own.values["muhat"] = 0.3;
  const Message reply = one.correct1({}, one.constant(2, 0.8));
  EXPECT_EQ(reply.get<double>("muhat"), 0.3);
  EXPECT_EQ(reply.get<std::uint32_t>("relabelled"), 0U);
}

TEST(FedCorrClient, CorrectsLabelsThatWereCorrectedBefore) {
  OneClient one(10);
  one.held.given.assign(10, 0);
  one.remember_losses(kWorkedLosses);
  one.correct1({}, one.constant(2, 0.8));
  const Labels before = one.memory.trace.labels.value();
  one.remember_losses({2.45F, 2.42F, 1.5F, 1.5F, 1.5F, 1.5F, 1.5F, 1.5F, 1.5F, 1.5F});
  one.correct1({.relabel_ratio = 1.0}, one.constant(1, 0.8));
  EXPECT_THAT(one.memory.trace.labels.value(), ElementsAre(1, 1, 0, 0, 0, 0, 0, 0, 2, 2));
  EXPECT_THAT(before, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 2, 2));
}

// spec: label-noise A.4 #17
TEST(FedCorrClient, ForgetsItsNoiseWhenToldItIsClean) {
  OneClient one(10);
  one.memory.own.values["muhat"] = 0.4;
  one.remember_losses(kWorkedLosses);
  const Message reply = one.send({}, Message("set_clean").set("round", std::uint32_t{2}));
  EXPECT_EQ(reply.kind(), "set_clean_done");
  EXPECT_EQ(reply.bytes(), 0);
  EXPECT_TRUE(one.memory.empty());
  one.memory.trace.labels = Labels(10, 1);
  one.send({}, Message("set_clean").set("round", std::uint32_t{2}));
  EXPECT_EQ(one.memory.trace.labels.value(), Labels(10, 1)) << "corrected labels stay";
}

// spec: label-noise A.4 #11
TEST(FedCorrClient, CorrectsEveryConfidentSampleInTheEnd) {
  OneClient one(10);
  one.held.given = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0};
  const auto correct_all = [&](const State& model) {
    return one.send({}, Message("correct_all").set("model", model));
  };
  EXPECT_EQ(correct_all(one.constant(2, 0.45)).get<std::uint32_t>("relabelled"), 0U);
  EXPECT_FALSE(one.memory.trace.labels);
  const Message reply = correct_all(one.constant(2, 0.8));
  EXPECT_EQ(reply.kind(), "correct_all_done");
  EXPECT_EQ(reply.get<std::uint32_t>("relabelled"), 7U) << "three were 2 before";
  EXPECT_EQ(one.memory.trace.labels.value(), Labels(10, 2));
}

// spec: label-noise A.4 #11: the paper's listing relabels every sample in the end
TEST(FedCorrClient, CorrectsAllSamplesInTheEndWhenTold) {
  OneClient one(10);
  one.held.given = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0};
  const Options all{.theta = 0.9, .final_theta = 0.0};
  const State unsure = one.constant(2, 0.45);
  one.send(all, Message("correct_all").set("model", unsure));
  EXPECT_EQ(one.memory.trace.labels.value(), Labels(10, 2));
  one.memory = {};
  one.remember_losses(kWorkedLosses);
  EXPECT_EQ(one.correct1(all, unsure).get<std::uint32_t>("relabelled"), 0U)
      << "before that theta counts";
}

// Stage 3 with a learning rate of its own, which decays from the start of the stage.
TEST(FedCorrClient, TrainsInStageThreeWithItsOwnLearningRate) {
  OneClient one;
  one.train.lr_decay = 0.5;
  const auto usual = [&](const Options& options, std::uint32_t round) {
    ClientContext context(kId, one.held, one.memory, one.lane, one.train, kSeed);
    const Client client(options, FedAvg().client_side());
    return hash(client
                    .handle(Message("train")
                                .set("round", std::uint32_t{2})
                                .set("model", one.start)
                                .set(kUsualRound, round),
                            context)
                    .get<State>("model"));
  };
  const auto expected = [&](double lr) {
    TrainOptions train = one.train;
    train.mixup = 1.0;
    train.lr = lr;
    train.lr_decay = 1.0;
    return hash(
        one.lane.trainer()
            .train(one.start, {one.held.samples, one.held.given}, train, {}, {kSeed, 2, kId})
            .state);
  };
  EXPECT_EQ(usual({.usual_lr = 0.3}, 7), expected(0.3));
  const Options decaying{.usual_lr = 0.4, .usual_lr_decay = 0.5};
  EXPECT_EQ(usual(decaying, 0), expected(0.4));
  EXPECT_EQ(usual(decaying, 3), expected(0.05));
  const std::string own = usual(decaying, 3);
  one.train.lr_schedule = "cosine";  // of the run; that of the stage is its own
  one.train.rounds = 9;
  EXPECT_EQ(usual(decaying, 3), own);
}

TEST(FedCorrClient, FinetunesWithoutPullOnItsLabelsInUse) {
  OneClient one;
  one.memory.own.values["muhat"] = 0.4;
  const auto finetune = [&](const Options& options) {
    const Message reply = one.send(
        options, Message("finetune").set("round", std::uint32_t{2}).set("model", one.start));
    EXPECT_EQ(reply.kind(), "finetune_done");
    EXPECT_EQ(reply.get<std::uint32_t>("samples"), 30U);
    return hash(reply.get<State>("model"));
  };
  EXPECT_EQ(finetune({}), hash(one.trained(1.0)));
  EXPECT_EQ(finetune({.mixup_stage1_only = true}), hash(one.trained(0.0)));
  one.memory.trace.labels = Labels(30, 1);
  one.held.given = Labels(30, 1);
  const std::string expected = hash(one.trained(1.0));
  one.held.given = Labels(30, 0);
  EXPECT_EQ(finetune({}), expected);
}

TEST(FedCorrClient, HandsOtherTasksToTheBaseWithMixup) {
  OneClient one;
  const auto train = [&](const Options& options) {
    const Message reply =
        one.send(options, Message("train").set("round", std::uint32_t{2}).set("model", one.start));
    EXPECT_EQ(reply.kind(), "train_done");
    return hash(reply.get<State>("model"));
  };
  EXPECT_EQ(train({}), hash(one.trained(1.0)));
  EXPECT_EQ(train({.mixup = 0.0}), hash(one.trained(0.0)));
  EXPECT_EQ(train({.mixup_stage1_only = true}), hash(one.trained(0.0)));
  EXPECT_EQ(hash(one.train1({.mixup_stage1_only = true}).get<State>("model")),
            hash(one.trained(1.0)));
}

}  // namespace winnow::fedcorr::client_test
