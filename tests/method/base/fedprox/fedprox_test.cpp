#include "winnow/method/base/fedprox/fedprox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "method/small_federation.h"
#include "testing/simulation.h"
#include "winnow/method/base/fedavg/fedavg.h"

namespace winnow::fedprox_test {

std::unique_ptr<FedProx> fedprox(const Json& table) {
  auto method = std::make_unique<FedProx>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

// The models after each round of a method in a federation of four clients.
std::vector<State> models_of(Method& method, std::int64_t rounds = 3) {
  const DataSet data = tiny_data();
  Simulation engine(data, deal(data, {10, 25, 5, 20}), net_info<TwoLayerNet>("two_layers"),
                    {.epochs = 2, .batch_size = 6, .lr = 0.1}, {.lanes = 2, .seed = 5}, nullptr);
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

// spec: baselines 2
TEST(FedProx, WithMuZeroIsFedAvgBitForBit) {
  FedAvg fedavg;
  const std::vector<State> plain = models_of(fedavg);
  const std::vector<State> proximal = models_of(*fedprox({{"mu", 0}}));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(hash(plain[i]), hash(proximal[i])) << "round " << i;
  }
  EXPECT_NE(hash(plain[0]), hash(plain[1]));
}

TEST(FedProx, WeighsClientsAsFedAvgDoes) {
  FedAvg fedavg;
  Params params;
  fedavg.declare(params);
  params.read({{"weighting", "equal"}}, "method");
  const State plain = models_of(fedavg, 1).back();
  EXPECT_EQ(hash(models_of(*fedprox({{"mu", 0}, {"weighting", "equal"}}), 1).back()), hash(plain));
  EXPECT_NE(hash(models_of(*fedprox({{"mu", 0}}), 1).back()), hash(plain));
}

TEST(FedProx, HoldsTheModelNearerToTheStart) {
  FedAvg fedavg;
  const std::vector<State> plain = models_of(fedavg, 1);
  const std::vector<State> weak = models_of(*fedprox({{"mu", 0.5}}), 1);
  const std::vector<State> strong = models_of(*fedprox({{"mu", 5.0}}), 1);
  EXPECT_GT(distance(plain[1], plain[0]), 1.01 * distance(weak[1], weak[0]));
  EXPECT_GT(distance(weak[1], weak[0]), 1.2 * distance(strong[1], strong[0]));
  EXPECT_GT(distance(strong[1], strong[0]), 0.0);
}

TEST(FedProx, DefaultsToTheDocumentedMu) {
  FedProx method;
  Params params;
  method.declare(params);
  EXPECT_EQ(params.find("mu")->default_value(), Json(0.01));
  const std::vector<State> by_default = models_of(*fedprox(Json::object()), 1);
  const std::vector<State> named = models_of(*fedprox({{"mu", 0.01}}), 1);
  EXPECT_EQ(hash(by_default[1]), hash(named[1]));
}

TEST(FedProx, RefusesANegativeMu) {
  EXPECT_THAT(error_text([] { fedprox({{"mu", -1.0}}); }), testing::HasSubstr("method.mu"));
}

TEST(FedProx, SendsWhatFedAvgSends) {
  FedProx method;
  const SentInARound sent = sent_in_a_round(method);
  EXPECT_EQ(sent.traffic.bytes_down, 2 * 24);
  EXPECT_EQ(sent.traffic.bytes_up, 2 * 24);
  EXPECT_EQ(sent.kinds, (std::vector<std::string>{"train", "train_done"}));
}

}  // namespace winnow::fedprox_test
