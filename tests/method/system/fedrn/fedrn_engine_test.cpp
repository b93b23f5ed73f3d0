// FedRN's server and clients together, in a small federation.
#include <gtest/gtest.h>

#include "testing/simulation.h"
#include "testing/support.h"
#include "winnow/method/base/fedavg/fedavg.h"
#include "winnow/method/system/fedrn/fedrn.h"

namespace winnow::fedrn::fedrn_engine_test {

constexpr std::int64_t kRounds = 5;
constexpr std::int64_t kWarmup = 2;

std::unique_ptr<FedRN> fedrn(Json table) {
  auto method = std::make_unique<FedRN>();
  Params params;
  method->declare(params);
  table["warmup"] = kWarmup;
  params.read(table, "method");
  return method;
}

// Seven clients, one of them with a single sample and one with none; a quarter of the labels is
// wrong.
struct Federation {
  Federation(std::unique_ptr<Method> its_method, const NetInfo& net = net_info<NormNet>("norm"),
             std::int64_t lanes = 2, bool augment = true)
      : data(tiny_data(60, 30, 16)),
        engine(data, noisy_clients(data), net, {.epochs = 2, .batch_size = 4, .lr = 0.05},
               {.lanes = lanes, .augment = augment, .seed = 5}, nullptr),
        method(std::move(its_method)),
        global(engine.initial_state(5)) {
    setting = {.seed = 5, .rounds = kRounds, .clients = 7, .fraction = 0.75, .classes = 3};
    engine.serve(method->client_side(), method->exchanges({}));
  }

  static std::vector<ClientData> noisy_clients(const DataSet& data) {
    std::vector<ClientData> clients = deal(data, {9, 1, 14, 6, 0, 11, 9});
    for (ClientData& client : clients) {
      for (std::size_t i = 0; i < client.given.size(); i += 4) {
        client.given[i] = (client.given[i] + 1) % 3;
      }
    }
    return clients;
  }
  void play(std::int64_t round) {
    notes = Json::object();
    Server server{setting, engine, global, notes};
    method->play(round, server);
    engine.commit();
  }
  std::vector<std::string> play_all() {
    std::vector<std::string> hashes;
    for (std::int64_t round = 0; round < kRounds; ++round) {
      play(round);
      hashes.push_back(hash(global));
    }
    return hashes;
  }

  DataSet data;
  Simulation engine;
  std::unique_ptr<Method> method;
  Setting setting;
  State global;
  Json notes = Json::object();
};

// spec: label-noise B.8 #10
TEST(FedRNEngine, WarmUpEqualsFedAvgBitForBit) {
  for (const bool augment : {false, true}) {
    Federation plain(std::make_unique<FedAvg>(), net_info<NormNet>("norm"), 2, augment);
    Federation robust(fedrn({{"neighbours", 2}}), net_info<NormNet>("norm"), 2, augment);
    const std::vector<std::string> expected = plain.play_all();
    const std::vector<std::string> hashes = robust.play_all();
    for (std::size_t round = 0; round < kRounds; ++round) {
      EXPECT_EQ(hashes[round] == expected[round], round < kWarmup) << "round " << round;
    }
  }
}

// spec: label-noise B.8 #10
TEST(FedRNEngine, CostsTwoModelsAndThenKMore) {
  Federation federation(fedrn({{"neighbours", 2}}));
  const std::int64_t model = federation.global.bytes();
  Traffic before;
  for (std::int64_t round = 0; round < kRounds; ++round) {
    federation.play(round);
    const Traffic now = federation.engine.traffic();
    const auto clients = static_cast<std::int64_t>(federation.notes["clients"].size());
    std::int64_t neighbours = 0;
    if (round >= kWarmup) {
      for (const auto& [client, sent] : federation.notes["neighbours"].items()) {
        neighbours += static_cast<std::int64_t>(sent.size());
      }
      EXPECT_EQ(neighbours, 2 * clients);
    }
    const std::int64_t reliability = round < kWarmup ? 0 : 8 * (neighbours + clients);
    EXPECT_EQ(now.bytes_down - before.bytes_down,
              clients * (4 + model) + neighbours * model + reliability);
    EXPECT_EQ(now.bytes_up - before.bytes_up, clients * (model + 4 + 8 + 4 * 3));
    before = now;
  }
}

TEST(FedRNEngine, GivesTheSameBitsForAnyNumberOfLanes) {
  for (const NetInfo& net : {net_info<NormNet>("norm"), builtin_networks().find("cnn4")}) {
    const Json table{{"neighbours", 2}};
    const std::vector<std::string> one = Federation(fedrn(table), net, 1).play_all();
    EXPECT_EQ(Federation(fedrn(table), net, 2).play_all(), one) << net.name;
    EXPECT_EQ(Federation(fedrn(table), net, 5).play_all(), one) << net.name;
    EXPECT_NE(one[3], one[4]);
  }
}

TEST(FedRNEngine, LendingModelsOfTheSameRoundGivesTheSameBitsForAnyNumberOfLanes) {
  const Json table{{"neighbours", 2}, {"fresh", true}};
  const NetInfo net = net_info<NormNet>("norm");
  const std::vector<std::string> one = Federation(fedrn(table), net, 1).play_all();
  EXPECT_EQ(Federation(fedrn(table), net, 3).play_all(), one);
}

TEST(FedRNEngine, GivesTheSameBitsWhereverModelsAreStored) {
  const std::vector<std::string> memory = Federation(fedrn({{"neighbours", 2}})).play_all();
  EXPECT_EQ(Federation(fedrn({{"neighbours", 2}, {"store_limit_mb", 0}})).play_all(), memory);
}

TEST(FedRNEngine, EveryOptionChangesTheRun) {
  const auto play = [](const Json& table) { return Federation(fedrn(table)).play_all().back(); };
  const std::string plain = play({});
  EXPECT_EQ(play({}), plain);
  for (const Json& table :
       {Json{{"neighbours", 0}}, Json{{"finetune", false}}, Json{{"score_view", "clean"}},
        Json{{"choice", "random"}}, Json{{"own_model", "global"}},
        Json{{"choice", "random"}, {"random_weights", "reliability"}}}) {
    EXPECT_NE(play(table), plain) << table.dump();
  }
}

TEST(FedRNEngine, AResumedRunEndsInTheSameBits) {
  const Json table{{"neighbours", 2}, {"store_limit_mb", 0}};
  const std::vector<std::string> whole = Federation(fedrn(table)).play_all();
  for (const std::int64_t cut : {1, 3}) {
    Federation first(fedrn(table));
    for (std::int64_t round = 0; round < cut; ++round) {
      first.play(round);
    }
    Archive saved;
    first.method->save(saved);
    saved = out_of_a_file(saved);
    saved.values = Json::parse(saved.values.dump());

    Federation second(fedrn(table));
    second.global = first.global;
    second.method->load(saved);
    second.engine.restore(first.engine.memories());
    for (std::int64_t round = cut; round < kRounds; ++round) {
      second.play(round);
    }
    EXPECT_EQ(hash(second.global), whole.back()) << "cut after " << cut;
  }
}

TEST(FedRNEngine, ARoundThatIsTakenBackCanBePlayedAgain) {
  const Json table{{"neighbours", 2}, {"store_limit_mb", 0}};
  const std::vector<std::string> whole = Federation(fedrn(table)).play_all();
  Federation federation(fedrn(table));
  for (std::int64_t round = 0; round < kRounds; ++round) {
    Archive before;
    federation.method->save(before);
    const State global = federation.global;
    Server server{federation.setting, federation.engine, federation.global, federation.notes};
    federation.method->play(round, server);
    federation.engine.rollback();
    federation.global = global;
    federation.method->load(before);
    federation.play(round);
  }
  EXPECT_EQ(hash(federation.global), whole.back());
}

TEST(FedRNEngine, ClientsRememberTheirModelAndTheirChoice) {
  Federation federation(fedrn({{"neighbours", 2}}));
  federation.play(0);
  for (const auto& [client, memory] : federation.engine.memories()) {
    EXPECT_TRUE(memory.own.tensors.contains("local"));
    EXPECT_FALSE(memory.trace.selected);
  }
  federation.play(kWarmup);
  for (const auto& client : federation.notes["clients"]) {
    const auto id = client.get<std::int64_t>();
    EXPECT_EQ(federation.engine.traces().at(id).selected.value().size(),
              static_cast<std::size_t>(federation.engine.samples(id)));
  }
}

}  // namespace winnow::fedrn::fedrn_engine_test
