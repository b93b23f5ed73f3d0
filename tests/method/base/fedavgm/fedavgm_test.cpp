#include "winnow/method/base/fedavgm/fedavgm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "method/base_rounds.h"
#include "method/small_federation.h"
#include "testing/simulation.h"
#include "winnow/method/base/fedavg/fedavg.h"

namespace winnow::fedavgm_test {

std::unique_ptr<FedAvgM> fedavgm(const Json& table = Json::object()) {
  auto method = std::make_unique<FedAvgM>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

Upload upload(const State& model, std::uint32_t samples = 1) {
  return {0, Message("train_done").set("model", model).set("samples", samples),
          static_cast<double>(samples)};
}

// One server step from `w` whose clients' models average to `mean`.
float step(FedAvgM& method, float w, float mean) {
  return values_of(fuse(method, state_of({w}), {upload(state_of({mean}))})).front();
}

double velocity(const FedAvgM& method) {
  Archive archive;
  method.save(archive);
  return archive.tensors.at("fedavgm.velocity")[0].item<double>();
}

// The models after each round of a method in a federation of four clients.
std::vector<State> models_of(Method& method, std::int64_t rounds = 3) {
  const DataSet data = tiny_data();
  Simulation engine(data, deal(data, {10, 25, 5, 20}), net_info<NormNet>("norm"),
                    {.epochs = 1, .batch_size = 6, .lr = 0.1}, {.lanes = 2, .seed = 5}, nullptr);
  engine.serve(method.client_side(), method.exchanges({}));
  const Setting setting{
      .seed = 5, .rounds = rounds, .clients = 4, .fraction = 0.75, .classes = data.classes};
  State global = engine.initial_state(5);
  std::vector<State> models{global};
  for (std::int64_t round = 0; round < rounds; ++round) {
    Json notes = Json::object();
    Server server{setting, engine, global, notes};
    method.play(round, server);
    models.push_back(global);
  }
  return models;
}

// spec: baselines 5
TEST(FedAvgM, GivesTheWorkedSteps) {
  const auto method = fedavgm();
  EXPECT_FLOAT_EQ(step(*method, 0, 1), 1.0F);
  EXPECT_DOUBLE_EQ(velocity(*method), -1.0);
  EXPECT_FLOAT_EQ(step(*method, 1, 1.5F), 2.4F);
  EXPECT_DOUBLE_EQ(velocity(*method), -1.4);
}

// spec: baselines T3
TEST(FedAvgM, WithoutMomentumIsFedAvgBitForBit) {
  FedAvg fedavg;
  const std::vector<State> plain = models_of(fedavg);
  const std::vector<State> neutral = models_of(*fedavgm({{"lr", 1.0}, {"momentum", 0.0}}));
  const std::vector<State> carried = models_of(*fedavgm());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(hash(plain[i]), hash(neutral[i])) << "round " << i;
  }
  EXPECT_LT(distance(plain[1], carried[1]), 1e-5) << "the first round has no momentum yet";
  EXPECT_GT(distance(plain[2], carried[2]), 1e-3);
}

// spec: baselines T1
TEST(FedAvgM, ReturnsTheCommonModelOfIdenticalClientsInTheFirstRound) {
  const State common = state_of({0.1F, 2.7F, -3.3F}, {0.4F}, {7});
  const auto method = fedavgm();
  const State start = state_of({5, 1e-3F, 100}, {1}, {0});
  EXPECT_THAT(values_of(fuse(*method, start, {upload(common, 3), upload(common, 9)})),
              testing::Pointwise(testing::FloatNear(1e-6F), values_of(common)));
}

TEST(FedAvgM, VelocityOfAConstantGradientReachesItsLimit) {
  const auto method = fedavgm({{"momentum", 0.8}});
  float w = 0;
  for (int round = 0; round < 100; ++round) {
    w = step(*method, w, w + 0.5F);
  }
  EXPECT_NEAR(velocity(*method), -0.5 / (1 - 0.8), 1e-4);
}

TEST(FedAvgM, WithLearningRateZeroOnlyTheVelocityMoves) {
  const auto method = fedavgm({{"lr", 0.0}});
  EXPECT_EQ(step(*method, 0.3F, 1), 0.3F);
  EXPECT_NEAR(velocity(*method), -0.7, 1e-6);
  EXPECT_EQ(step(*method, 0.3F, 1), 0.3F);
  EXPECT_NEAR(velocity(*method), -1.33, 1e-6);
}

TEST(FedAvgM, AveragesBuffers) {
  const auto method = fedavgm({{"lr", 0.5}});
  const State global = state_of({0}, {9}, {9});
  const State next =
      fuse(*method, global,
           {upload(state_of({1}, {0}, {10}), 100), upload(state_of({1}, {4}, {11}), 300)});
  EXPECT_EQ(values_of(next), (std::vector<float>{0.5F, 3.0F, 11.0F}));
  EXPECT_EQ(values_of(global), (std::vector<float>{0, 9, 9}));
}

TEST(FedAvgM, ResumesBitForBit) {
  const auto whole = fedavgm();
  const float middle = step(*whole, 0.3F, 0.41F);
  Archive archive;
  whole->save(archive);
  const auto resumed = fedavgm();
  resumed->load(archive);
  const float end = step(*whole, middle, 0.47F);
  EXPECT_EQ(step(*resumed, middle, 0.47F), end);

  whole->load(archive);
  EXPECT_EQ(step(*whole, middle, 0.47F), end) << "a round is taken back";
  whole->load({});
  EXPECT_EQ(step(*whole, 0.3F, 0.41F), middle) << "an empty archive clears";
}

TEST(FedAvgM, HasTheDocumentedDefaults) {
  const MethodInfo info = fedavgm_info();
  EXPECT_EQ(info.name, "fedavgm");
  EXPECT_EQ(info.group, "base");
  const std::unique_ptr<Method> method = info.make();
  EXPECT_NE(dynamic_cast<BaseMethod*>(method.get()), nullptr);
  Params params;
  method->declare(params);
  EXPECT_EQ(params.values(), (Json{{"lr", 1.0}, {"momentum", 0.9}}));
  EXPECT_THAT(error_text([] {
                fedavgm({{"momentum", 1.0}});
              }),
              testing::HasSubstr("method.momentum"));
}

TEST(FedAvgM, SendsWhatFedAvgSends) {
  FedAvgM method;
  const SentInARound sent = sent_in_a_round(method);
  EXPECT_EQ(sent.traffic.bytes_down, 2 * 24);
  EXPECT_EQ(sent.traffic.bytes_up, 2 * 24);
  EXPECT_EQ(sent.kinds, (std::vector<std::string>{"train", "train_done"}));
}

}  // namespace winnow::fedavgm_test
