#include "winnow/method/trainer/joint_optimisation/joint_optimisation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "method/one_client.h"
#include "method/small_federation.h"
#include "winnow/method/base/fedavg/fedavg.h"
#include "winnow/train/soft_loss.h"

namespace winnow::joint_optimisation::joint_optimisation_test {

const Json kAfterTwo{{"warmup", 2}, {"history", 3}};

at::Tensor rows(const std::vector<double>& values, std::int64_t columns) {
  return at::tensor(values, at::kDouble).view({-1, columns});
}

// spec: baselines 22
TEST(JointOptimisation, WorkedNumbers) {
  const at::Tensor logits = rows({2, 0, 0, 1}, 2);
  const double classification =
      soft_cross_entropies(logits, at::eye(2, at::kDouble)).mean().item<double>();
  const double prior = prior_term(logits).item<double>();
  const double entropy = entropy_term(logits).item<double>();
  EXPECT_NEAR(classification, 0.220095, 1e-6);
  EXPECT_NEAR(prior, 0.704486, 1e-6);
  EXPECT_NEAR(entropy, 0.473768, 1e-6);
  EXPECT_NEAR(classification + 1.2 * prior + 0.8 * entropy, 1.444492, 1e-6);
}

// spec: baselines 22
TEST(JointOptimisation, ThePriorTermIsLeastForAUniformMean) {
  EXPECT_NEAR(prior_term(rows({1, 0, 0, 0, 1, 0, 0, 0, 1}, 3)).item<double>(), std::log(3.0),
              1e-12);
  EXPECT_GT(prior_term(rows({1, 0, 0, 1, 0, 0}, 3)).item<double>(), std::log(3.0) + 0.01);
}

TEST(JointOptimisation, SoftLabelsAreTheMeanOfWhatIsThere) {
  const at::Tensor ring = at::tensor(std::vector<float>{1, 0, .5F, .5F, 0, 0,  // the last is free
                                                        .2F, .8F, .4F, .6F, 0, 0})
                              .view({2, 3, 2});
  const at::Tensor soft = soft_labels(ring, 2, false);
  EXPECT_TRUE(
      at::allclose(soft, at::tensor(std::vector<float>{.75F, .25F, .3F, .7F}).view({2, 2})));
  EXPECT_EQ(values_of(soft_labels(ring, 2, true)), (std::vector<float>{1, 0, 0, 1}));
}

// spec: baselines 22, T5
TEST(JointOptimisation, WarmUpWithoutTermsIsFedAvgBitForBit) {
  OneClient<NormNet> client({.epochs = 2, .batch_size = 5, .lr = 0.1, .label_smoothing = 0.1});
  const State start = client.initial(1);
  const auto method = make_with<JointOptimisation>({{"alpha", 0.0}, {"beta", 0.0}, {"warmup", 9}});
  const Message reply = client.train(*method, 8, start);
  EXPECT_EQ(model_hash(reply), hash(client.plain(start, 8)));
  EXPECT_EQ(reply.bytes(), start.bytes() + 4);
  EXPECT_EQ(client.steps, 6);
  const auto with_terms = make_with<JointOptimisation>({{"warmup", 9}});
  EXPECT_NE(model_hash(client.train(*with_terms, 8, start)), hash(client.plain(start, 8)));
}

// spec: baselines 22
TEST(JointOptimisation, LabelsStayInTheWarmUpAndAreProbabilitiesAfterIt) {
  OneClient client;
  const auto method = make_with<JointOptimisation>(kAfterTwo);
  State model = client.train(*method, 1, client.initial(1)).get<State>("model");
  EXPECT_FALSE(client.memory.own.tensors.contains("joint.soft"));
  EXPECT_FALSE(client.memory.trace.labels.has_value());
  EXPECT_EQ(client.memory.own.values["joint.recorded"], 2);
  client.train(*method, 2, model);
  const at::Tensor soft = client.memory.own.tensors.at("joint.soft");
  EXPECT_EQ(soft.sizes(), (std::vector<std::int64_t>{12, 3}));
  EXPECT_TRUE(at::allclose(soft.sum(1), at::ones({12})));
  EXPECT_EQ(client.memory.own.values["joint.recorded"], 4);
  const at::Tensor ring = client.memory.own.tensors.at("joint.ring");
  EXPECT_TRUE(at::allclose(soft, ring.mean(1)));
  EXPECT_EQ(*client.memory.trace.labels, numbers_of(soft.argmax(1)));
}

// The history holds what the forward passes predicted: without learning, the model's own output.
TEST(JointOptimisation, StoresThePredictionsOfEveryForwardPass) {
  OneClient client({.epochs = 2, .batch_size = 5, .lr = 0.0});
  const State start = client.initial(1);
  client.train(*make_with<JointOptimisation>(kAfterTwo), 0, start);
  client.lane.scorer().load(start);
  const at::Tensor expected =
      client.lane.scorer().logits(client.feed, client.held.samples, 12).softmax(1);
  const at::Tensor ring = client.memory.own.tensors.at("joint.ring");
  EXPECT_TRUE(at::allclose(ring.select(1, 0), expected, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(ring.select(1, 1), expected, 1e-5, 1e-6));
  EXPECT_EQ(ring.select(1, 2).abs().max().item<float>(), 0.0F) << "not there yet";
}

TEST(JointOptimisation, TheHistoryIsARing) {
  OneClient client({.epochs = 2, .batch_size = 5, .lr = 0.0});
  const auto method = make_with<JointOptimisation>(kAfterTwo);
  client.train(*method, 0, client.initial(1));
  const at::Tensor before = client.memory.own.tensors.at("joint.ring");
  const at::Tensor kept = before.clone();
  client.train(*method, 1, client.initial(2));
  const at::Tensor after = client.memory.own.tensors.at("joint.ring");
  EXPECT_TRUE(before.equal(kept)) << "replaced, never changed";
  EXPECT_FALSE(after.select(1, 0).equal(before.select(1, 0))) << "the fourth replaces the first";
  EXPECT_TRUE(after.select(1, 1).equal(before.select(1, 1)));
  // A sample stands at another place of its batch there, which under the baseline arithmetic shows
  // in the last bit.
  EXPECT_TRUE(at::allclose(after.select(1, 2), after.select(1, 0), 1e-5, 1e-7));
}

TEST(JointOptimisation, TrainsOnTheSoftLabelsItRemembers) {
  const auto trained_with = [](const at::Tensor& soft) {
    OneClient client({.epochs = 1, .batch_size = 5, .lr = 0.1});
    client.memory.own.tensors["joint.soft"] = soft;
    return model_hash(
        client.train(*make_with<JointOptimisation>({{"warmup", 0}}), 0, client.initial(1)));
  };
  const at::Tensor first = one_hot_rows(at::zeros({12}, at::kLong), 3);
  EXPECT_NE(trained_with(first), trained_with(first.roll(1, 1)));
  OneClient fresh({.epochs = 1, .batch_size = 5, .lr = 0.1});
  const at::Tensor given = one_hot_rows(at::tensor(fresh.held.given), 3);
  EXPECT_EQ(
      model_hash(fresh.train(*make_with<JointOptimisation>({{"warmup", 0}}), 0, fresh.initial(1))),
      trained_with(given))
      << "they start as the given ones";
}

TEST(JointOptimisation, CanTrainOnTheLikeliestClassAlone) {
  OneClient client;
  Json table = kAfterTwo;
  table["hard_labels"] = true;
  client.train(*make_with<JointOptimisation>(table), 5, client.initial(1));
  const at::Tensor soft = client.memory.own.tensors.at("joint.soft");
  EXPECT_TRUE(soft.eq(0).logical_or(soft.eq(1)).all().item<bool>());
  EXPECT_TRUE(soft.sum(1).eq(1).all().item<bool>());
}

TEST(JointOptimisation, HasEpochsOfItsOwnAfterTheWarmUp) {
  OneClient client;
  Json table = kAfterTwo;
  table["epochs"] = 5;
  const auto method = make_with<JointOptimisation>(table);
  client.train(*method, 1, client.initial(1));
  EXPECT_EQ(client.steps, 6);
  client.train(*method, 2, client.initial(1));
  EXPECT_EQ(client.steps, 15);
}

TEST(JointOptimisation, ADivergedModelLeavesTheMemoryAsItWas) {
  OneClient client;
  const auto method = make_with<JointOptimisation>(kAfterTwo);
  State broken = client.initial(1);
  broken.flat.fill_(std::numeric_limits<float>::quiet_NaN());
  client.train(*method, 5, broken);
  EXPECT_TRUE(client.memory.empty());
}

TEST(JointOptimisation, AClientWithoutSamplesReturnsTheModel) {
  OneClient client({}, 0);
  const State start = client.initial(1);
  EXPECT_EQ(model_hash(client.train(*make_with<JointOptimisation>(), 0, start)), hash(start));
  EXPECT_TRUE(client.memory.empty());
}

TEST(JointOptimisation, ALaneKeepsNothingOfAnotherClient) {
  OneClient used;
  const auto method = make_with<JointOptimisation>(kAfterTwo);
  used.train(*method, 3, used.initial(2));
  used.memory = {};
  OneClient fresh;
  const State start = fresh.initial(1);
  EXPECT_EQ(model_hash(used.train(*method, 5, start)), model_hash(fresh.train(*method, 5, start)));
  EXPECT_TRUE(
      used.memory.own.tensors.at("joint.ring").equal(fresh.memory.own.tensors.at("joint.ring")));
}

TEST(JointOptimisation, RefusesAWarmUpThatNeverEnds) {
  const auto method = make_with<JointOptimisation>();
  EXPECT_NO_THROW(method->check({.rounds = 101}));
  EXPECT_EQ(error_kind([&] { method->check({.rounds = 100}); }), ErrorKind::experiment);
}

// spec: baselines 22
TEST(JointOptimisation, HasTheSpecsDefaults) {
  EXPECT_EQ(defaults_of<JointOptimisation>(), (Json{{"alpha", 1.2},
                                                    {"beta", 0.8},
                                                    {"history", 15},
                                                    {"warmup", 100},
                                                    {"hard_labels", false},
                                                    {"epochs", 0}}));
}

// spec: baselines T5
TEST(JointOptimisation, AWarmUpOfAllRoundsWithoutTermsIsFedAvgBitForBit) {
  FedAvg fedavg;
  const auto method = make_with<JointOptimisation>({{"alpha", 0.0}, {"beta", 0.0}, {"warmup", 9}});
  EXPECT_EQ(round_hashes(*method), round_hashes(fedavg));
}

}  // namespace winnow::joint_optimisation::joint_optimisation_test
