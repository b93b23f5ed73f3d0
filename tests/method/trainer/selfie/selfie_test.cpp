#include "winnow/method/trainer/selfie/selfie.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "method/one_client.h"
#include "method/small_federation.h"
#include "winnow/method/base/fedavg/fedavg.h"
#include "winnow/method/local_training.h"
#include "winnow/method/trainer/selfie/objective.h"
#include "winnow/train/loss.h"

namespace winnow::selfie::selfie_test {

// Of 15 predictions, `odd` of class 1 and the others of class 0.
double uncertainty_of(std::int64_t odd, std::int64_t classes) {
  at::Tensor history = at::zeros({1, 15}, at::kLong);
  history.narrow(1, 0, odd).fill_(1);
  return uncertainty(prediction_counts(history, classes)).item<double>();
}

// spec: baselines 23
TEST(Selfie, UncertaintyOfAHistory) {
  EXPECT_EQ(uncertainty_of(0, 10), 0.0);
  EXPECT_NEAR(uncertainty_of(1, 10), 0.106372, 1e-6);
  EXPECT_NEAR(uncertainty_of(2, 10), 0.170536, 1e-6);
  EXPECT_NEAR(uncertainty_of(1, 100), 0.053186, 1e-6);
  EXPECT_GT(uncertainty_of(1, 100), 0.05) << "only unanimous histories qualify";
}

TEST(Selfie, CountsPredictionsByClass) {
  const at::Tensor history = at::tensor(std::vector<std::int64_t>{2, 0, 2, 1, 1, 1}).view({2, 3});
  EXPECT_EQ(numbers_of(prediction_counts(history, 3)),
            (std::vector<std::int64_t>{1, 0, 2, 0, 3, 0}));
}

// spec: baselines 23
TEST(Selfie, CleanSamplesOfABatch) {
  EXPECT_EQ(clean_count(50, 0.2), 40);
  EXPECT_EQ(clean_count(50, 0.0), 50) << "every sample is used";
  EXPECT_EQ(clean_count(9, 0.2), 8);
  EXPECT_EQ(clean_count(10, 0.1), 9) << "not 10 for rounding";
  EXPECT_EQ(clean_count(1, 0.2), 1);
  EXPECT_EQ(clean_count(5, 1.0), 0);
}

// spec: baselines 23, T5
TEST(Selfie, WarmUpIsFedAvgBitForBit) {
  OneClient<NormNet> client({.epochs = 2, .batch_size = 5, .lr = 0.1, .label_smoothing = 0.1});
  const State start = client.initial(1);
  const auto method = make_with<Selfie>({{"warmup", 9}, {"history", 3}});
  const Message reply = client.train(*method, 8, start);
  EXPECT_EQ(model_hash(reply), hash(client.plain(start, 8)));
  EXPECT_EQ(reply.bytes(), start.bytes() + 4);
  EXPECT_EQ(client.steps, 6);
  EXPECT_FALSE(client.memory.trace.selected.has_value());
  EXPECT_FALSE(client.memory.trace.labels.has_value());
  EXPECT_EQ(client.memory.own.values["selfie.recorded"], 2) << "predictions are recorded";
  EXPECT_EQ(client.memory.own.tensors.size(), 1U);
}

TEST(Selfie, RecordsPredictionsInARing) {
  OneClient client({.epochs = 2, .batch_size = 5, .lr = 0.0});
  const auto method = make_with<Selfie>({{"warmup", 9}, {"history", 3}});
  const auto predicted = [&](const State& model) {
    client.lane.scorer().load(model);
    return client.lane.scorer().logits(client.feed, client.held.samples, 12).argmax(1);
  };
  const State first = client.initial(1);
  const State second = client.initial(4);
  client.train(*method, 0, first);
  const at::Tensor before = client.memory.own.tensors.at("selfie.history");
  const at::Tensor kept = before.clone();
  client.train(*method, 1, second);
  const at::Tensor history = client.memory.own.tensors.at("selfie.history");
  ASSERT_FALSE(predicted(first).equal(predicted(second)));
  EXPECT_TRUE(before.equal(kept)) << "replaced, never changed";
  EXPECT_TRUE(history.select(1, 0).equal(predicted(second))) << "the fourth replaces the first";
  EXPECT_TRUE(history.select(1, 1).equal(predicted(first)));
  EXPECT_TRUE(history.select(1, 2).equal(predicted(second)));
}

// A batch of four with everything a step reads set by hand.
struct Step {
  Step() : client({.epochs = 1, .batch_size = 4, .lr = 0.0}, 4) {
    state = client.initial(1);
    plan = make_plan(client.set(), client.options, false, {1, 2, 3});
    client.lane.scorer().load(state);
    outputs = client.lane.scorer().logits(client.feed, client.held.samples, 4);
    predicted = outputs.argmax(1);
    given = at::tensor(client.held.given);
    history = predicted.unsqueeze(1).repeat({1, 3});
    refurbished = at::full({4}, -1, at::kLong);
  }
  double run(std::int64_t clean, bool full) {
    Lane& lane = client.lane;
    buffers = {.history = fill(lane.trainer(), "history", history),
               .refurbished = fill(lane.trainer(), "refurbished", refurbished),
               .used = fill(lane.trainer(), "used", at::zeros({4}, at::kByte)),
               .place = fill(lane.trainer(), "place", plan.place),
               .slot = fill(lane.trainer(), "slot", at::full({1}, 2, at::kLong)),
               .full = fill(lane.trainer(), "full", at::full({1}, full ? 1 : 0, at::kByte)),
               .clean = fill(lane.trainer(), "clean", at::full({1}, clean, at::kLong))};
    lane.trainer().begin({state}, {1, 2, 3});
    return lane.trainer()
        .run(plan, Objective(buffers, 0.05, {}, false), {.lr = 0.0})
        .item<double>();
  }
  at::Tensor row(const at::Tensor& buffer) const { return buffer.narrow(0, 0, 4).to(at::kLong); }
  double mean_loss(const at::Tensor& labels, const std::vector<std::int64_t>& places) const {
    return losses(outputs, labels).index_select(0, at::tensor(places)).mean().item<double>();
  }

  OneClient<> client;
  State state;
  Plan plan;
  at::Tensor outputs, predicted, given, history, refurbished;
  Buffers buffers;
};

TEST(Selfie, UsesTheSmallestLossesWhileNothingIsRefurbished) {
  Step step;
  const std::vector<std::int64_t> order = numbers_of(losses(step.outputs, step.given).argsort());
  EXPECT_NEAR(step.run(2, false), step.mean_loss(step.given, {order[0], order[1]}), 1e-5);
  const std::vector<std::int64_t> used = numbers_of(step.row(step.buffers.used));
  EXPECT_EQ(used[static_cast<std::size_t>(order[0])] + used[static_cast<std::size_t>(order[1])], 2);
  EXPECT_EQ(std::ranges::count(used, 1), 2);
  EXPECT_EQ(numbers_of(step.row(step.buffers.refurbished)), std::vector<std::int64_t>(4, -1))
      << "only full histories qualify";
  EXPECT_NEAR(step.run(4, false), step.mean_loss(step.given, {0, 1, 2, 3}), 1e-5);
}

TEST(Selfie, RefurbishesWhatIsAlwaysPredictedAlike) {
  Step step;
  // Of two samples an old prediction was another one.
  step.history[1][0] = (step.predicted[1] + 1) % 3;
  step.history[3][1] = (step.predicted[3] + 1) % 3;
  const at::Tensor labels = at::where(
      at::tensor(std::vector<std::int64_t>{1, 0, 1, 0}).to(at::kBool), step.predicted, step.given);
  EXPECT_NEAR(step.run(0, true), step.mean_loss(labels, {0, 2}), 1e-5);
  const std::vector<std::int64_t> said = numbers_of(step.predicted);
  EXPECT_EQ(numbers_of(step.row(step.buffers.refurbished)),
            (std::vector<std::int64_t>{said[0], -1, said[2], -1}));
  EXPECT_EQ(numbers_of(step.row(step.buffers.used)), (std::vector<std::int64_t>{1, 0, 1, 0}));
  EXPECT_NEAR(step.run(4, true), step.mean_loss(labels, {0, 1, 2, 3}), 1e-5)
      << "the refurbished label wins";
}

TEST(Selfie, ARefurbishedSampleStaysUsableAndIsUpdated) {
  Step step;
  const std::vector<std::int64_t> said = numbers_of(step.predicted);
  step.refurbished[0] = (said[0] + 1) % 3;
  step.refurbished[1] = (said[1] + 1) % 3;
  step.history[1][0] = (said[1] + 1) % 3;  // no longer sure
  at::Tensor labels = step.predicted.clone();
  labels[1] = (said[1] + 1) % 3;
  EXPECT_NEAR(step.run(0, true), step.mean_loss(labels, {0, 1, 2, 3}), 1e-5);
  EXPECT_EQ(numbers_of(step.row(step.buffers.refurbished)), numbers_of(labels));
}

TEST(Selfie, RemembersWhatItUsedAndRefurbishedAfterTheWarmUp) {
  OneClient client({.epochs = 3, .batch_size = 6, .lr = 0.01});
  const auto method = make_with<Selfie>({{"warmup", 2}, {"history", 3}, {"noise_rate", 0.5}});
  const State model = client.train(*method, 1, client.initial(1)).get<State>("model");
  client.train(*method, 2, model);
  ASSERT_TRUE(client.memory.trace.selected.has_value());
  EXPECT_EQ(client.memory.trace.selected->size(), 12U);
  EXPECT_GE(std::ranges::count(*client.memory.trace.selected, true), 6);
  const at::Tensor refurbished = client.memory.own.tensors.at("selfie.refurbished");
  EXPECT_GT(refurbished.ge(0).sum().item<std::int64_t>(), 0);
  EXPECT_FALSE(client.memory.trace.labels.has_value()) << "the given labels stay";
  EXPECT_EQ(client.memory.own.values["selfie.recorded"], 6);
}

TEST(Selfie, ADivergedModelLeavesTheMemoryAsItWas) {
  OneClient client;
  State broken = client.initial(1);
  broken.flat.fill_(std::numeric_limits<float>::quiet_NaN());
  client.train(*make_with<Selfie>({{"warmup", 0}}), 5, broken);
  EXPECT_TRUE(client.memory.empty());
}

TEST(Selfie, ALaneKeepsNothingOfAnotherClient) {
  const auto method = make_with<Selfie>({{"warmup", 0}, {"history", 2}});
  OneClient used;
  used.train(*method, 3, used.initial(2));
  used.memory = {};
  OneClient fresh;
  const State start = fresh.initial(1);
  EXPECT_EQ(model_hash(used.train(*method, 5, start)), model_hash(fresh.train(*method, 5, start)));
  for (const char* name : {"selfie.history", "selfie.refurbished"}) {
    EXPECT_TRUE(used.memory.own.tensors.at(name).equal(fresh.memory.own.tensors.at(name)));
  }
}

TEST(Selfie, RefusesAWarmUpThatNeverEnds) {
  const auto method = make_with<Selfie>();
  EXPECT_NO_THROW(method->check({.rounds = 101}));
  EXPECT_EQ(error_kind([&] { method->check({.rounds = 100}); }), ErrorKind::experiment);
}

// spec: baselines 23
TEST(Selfie, HasTheSpecsDefaults) {
  EXPECT_EQ(defaults_of<Selfie>(),
            (Json{{"noise_rate", 0.2}, {"threshold", 0.05}, {"history", 15}, {"warmup", 100}}));
}

// spec: baselines 23, T5. Histories fill up meanwhile.
TEST(Selfie, AWarmUpOfAllRoundsIsFedAvgBitForBit) {
  FedAvg fedavg;
  EXPECT_EQ(round_hashes(*make_with<Selfie>({{"warmup", 9}, {"history", 2}})),
            round_hashes(fedavg));
}

}  // namespace winnow::selfie::selfie_test
