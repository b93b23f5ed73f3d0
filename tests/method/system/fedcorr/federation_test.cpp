// FedCorr in whole federations: its invariants (spec: label-noise A.7 #12), bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "testing/simulation.h"
#include "testing/support.h"
#include "winnow/method/system/fedcorr/fedcorr.h"

namespace winnow::fedcorr_federation_test {

const std::vector<std::int64_t> kSizes{24, 18, 0, 30, 20, 28};

// The clients of the tiny data set; every second label of clients 3 and 5 is wrong.
std::vector<ClientData> noisy_clients(const DataSet& data) {
  std::vector<ClientData> clients = deal(data, kSizes);
  for (const std::size_t client : {3U, 5U}) {
    Labels& labels = clients[client].given;
    for (std::size_t i = 0; i < labels.size(); i += 2) {
      labels[i] = (labels[i] + 1) % data.classes;
    }
  }
  return clients;
}

Json small_table() {
  return {{"iterations", 2},     {"finetune_rounds", 2}, {"usual_rounds", 2},
          {"lid_neighbours", 5}, {"beta", 0.5},          {"theta", 0.4}};
}

// Passes orders on and remembers them and the replies of the last round.
class Witness final : public Fleet {
 public:
  explicit Witness(Fleet& fleet) : fleet_(fleet) {}

  std::int64_t size() const override { return fleet_.size(); }
  std::int64_t samples(std::int64_t client) const override { return fleet_.samples(client); }
  ClientList with_samples() const override { return fleet_.with_samples(); }
  std::vector<Absence> ask(const std::vector<Order>& orders, const Fold& fold) override {
    for (const Order& order : orders) {
      asked[order.task.kind()].push_back(order.client);
    }
    return fleet_.ask(orders, [&](std::int64_t client, const Message& reply) {
      replies.emplace_back(client, reply);
      fold(client, reply);
    });
  }
  const Traffic& traffic() const override { return fleet_.traffic(); }

  std::map<std::string, std::vector<std::int64_t>> asked;
  std::vector<std::pair<std::int64_t, Message>> replies;

 private:
  Fleet& fleet_;
};

struct Simulation {
  explicit Simulation(const Json& table, std::int64_t lanes = 2, bool augment = false)
      : data(tiny_data(120, 30)),
        held(noisy_clients(data)),
        engine(data, held, net_info<NormNet>("norm"), {.epochs = 2, .batch_size = 6, .lr = 0.1},
               {.lanes = lanes, .augment = augment, .seed = 5}, nullptr),
        witness(engine),
        setting{.seed = 5, .rounds = 1, .clients = 6, .fraction = 0.5, .classes = 3},
        parameters(table) {
    renew_method();
    global = engine.initial_state(5);
  }
  void renew_method() {
    method = std::make_unique<FedCorr>();
    Params params;
    method->declare(params);
    params.read(parameters, "method");
    engine.serve(method->client_side(), method->exchanges({}));
  }
  void play() {
    witness.asked.clear();
    witness.replies.clear();
    notes = Json::object();
    Server server{setting, witness, global, notes};
    method->play(round++, server);
    engine.commit();
  }
  std::int64_t rounds() const { return method->rounds(setting); }
  // The labels every client uses now.
  std::vector<Labels> labels() const {
    std::vector<Labels> all;
    for (std::size_t client = 0; client < held.size(); ++client) {
      const auto trace = engine.traces().find(static_cast<std::int64_t>(client));
      const bool corrected = trace != engine.traces().end() && trace->second.labels;
      all.push_back(corrected ? *trace->second.labels : held[client].given);
    }
    return all;
  }

  DataSet data;
  std::vector<ClientData> held;
  winnow::Simulation engine;
  Witness witness;
  Setting setting;
  Json parameters;
  std::unique_ptr<FedCorr> method;
  State global;
  Json notes;
  std::int64_t round = 0;
};

std::int64_t differences(const Labels& a, const Labels& b) {
  return static_cast<std::int64_t>(a.size()) -
         std::transform_reduce(a.begin(), a.end(), b.begin(), std::int64_t{0}, std::plus<>(),
                               [](std::int64_t x, std::int64_t y) { return x == y ? 1 : 0; });
}

TEST(FedCorrFederation, VisitsEveryClientOncePerIterationAndTakesItsModel) {
  Simulation simulation(small_table());
  for (int iteration = 0; iteration < 2; ++iteration) {
    std::vector<std::int64_t> visited;
    for (int turn = 0; turn < 6; ++turn) {
      const std::string before = hash(simulation.global);
      simulation.play();
      const auto& asked = simulation.witness.asked["train1"];
      visited.insert(visited.end(), asked.begin(), asked.end());
      if (asked.empty()) {
        EXPECT_EQ(hash(simulation.global), before);
        continue;
      }
      EXPECT_EQ(hash(simulation.global),
                hash(simulation.witness.replies.front().second.get<State>("model")));
    }
    EXPECT_THAT(visited, testing::UnorderedElementsAre(0, 1, 3, 4, 5)) << "2 has no samples";
  }
  EXPECT_EQ(simulation.engine.traffic().participations, 10);
}

TEST(FedCorrFederation, RelabelsOnlyFlaggedClientsAndNotTooMuch) {
  Simulation simulation(small_table());
  std::int64_t relabelled = 0;
  while (simulation.round < 12) {
    const std::vector<Labels> before = simulation.labels();
    simulation.play();
    const std::vector<Labels> after = simulation.labels();
    for (std::size_t client = 0; client < before.size(); ++client) {
      const auto id = static_cast<std::int64_t>(client);
      const std::int64_t changed = differences(before[client], after[client]);
      if (std::ranges::count(simulation.witness.asked["correct1"], id) == 0) {
        EXPECT_EQ(changed, 0) << "client " << client << ", round " << simulation.round;
        continue;
      }
      const double estimate = simulation.method->findings().noise_levels.at(id);
      EXPECT_LE(changed, fedcorr::relabel_count(kSizes[client], estimate, 0.5));
      relabelled += changed;
    }
    if (simulation.notes.contains("relabelled")) {
      EXPECT_EQ(simulation.notes["flagged"].get<std::size_t>(),
                simulation.witness.asked["correct1"].size());
    }
  }
  EXPECT_GT(relabelled, 0) << "the test would show nothing";
}

TEST(FedCorrFederation, ConfidentSamplesCarryThePredictionAfterFinetuning) {
  Simulation simulation(small_table());
  while (simulation.round < 14) {
    simulation.play();
  }
  const auto corrected = simulation.witness.asked["correct_all"];
  ASSERT_FALSE(corrected.empty());
  const Feed feed(simulation.data.train.images, simulation.data.normalisation, 0, at::kCPU);
  Lane lane(make_net<NormNet>(simulation.data), feed, false);
  lane.scorer().load(simulation.global);
  const std::vector<Labels> labels = simulation.labels();
  std::int64_t confident = 0;
  for (const std::int64_t client : corrected) {
    const auto place = static_cast<std::size_t>(client);
    const auto [most, said] =
        lane.scorer().logits(feed, simulation.held[place].samples, 100).softmax(1).max(1);
    for (std::int64_t i = 0; i < most.size(0); ++i) {
      if (most[i].item<float>() > 0.4F) {
        ++confident;
        EXPECT_EQ(labels[place][static_cast<std::size_t>(i)], said[i].item<std::int64_t>());
      }
    }
  }
  EXPECT_GT(confident, 0);
}

TEST(FedCorrFederation, NoLabelChangesWithThetaOneOrWithoutCorrection) {
  for (const Json& change : {Json{{"theta", 1.0}}, Json{{"correction", false}}}) {
    Json table = small_table();
    table.update(change);
    Simulation simulation(table);
    const std::vector<Labels> given = simulation.labels();
    while (simulation.round < simulation.rounds()) {
      simulation.play();
      EXPECT_EQ(simulation.labels(), given);
    }
    EXPECT_FALSE(simulation.method->findings().flagged->empty());
  }
}

TEST(FedCorrFederation, CountsParticipations) {
  Simulation simulation(small_table());
  while (simulation.round < simulation.rounds()) {
    simulation.play();
  }
  EXPECT_EQ(simulation.round, 2 * 6 + 2 + 2);
  EXPECT_EQ(simulation.engine.traffic().participations, 2 * 5 + 2 * 3 + 2 * 3);
}

struct Trace {
  std::vector<std::string> hashes;
  std::vector<Json> notes;
  std::vector<Labels> labels;

  bool operator==(const Trace&) const = default;
};

Trace run(const Json& table, std::int64_t lanes, bool augment, bool resume_every_round = false) {
  Simulation simulation(table, lanes, augment);
  Trace trace;
  while (simulation.round < simulation.rounds()) {
    if (resume_every_round) {
      Archive archive;
      simulation.method->save(archive);
      const auto memories = simulation.engine.memories();
      simulation.renew_method();
      simulation.method->load(archive);
      simulation.engine.restore(memories);
    }
    simulation.play();
    trace.hashes.push_back(hash(simulation.global));
    trace.notes.push_back(simulation.notes);
  }
  trace.labels = simulation.labels();
  return trace;
}

TEST(FedCorrFederation, GivesTheSameBitsForAnyNumberOfLanes) {
  Json table = small_table();
  table["stage1_fraction"] = 0.5;  // so that lanes share a turn
  const Trace one = run(table, 1, true);
  EXPECT_EQ(run(table, 3, true), one);
}

TEST(FedCorrFederation, GivesTheSameBitsWhenResumedAfterEveryRound) {
  EXPECT_EQ(run(small_table(), 2, false, true), run(small_table(), 2, false));
}

TEST(FedCorrFederation, EveryAblationRuns) {
  const std::vector<Json> ablations{
      {{"stage1_fraction", 0.5}}, {{"beta", 0.0}},
      {{"finetune_rounds", 0}},   {{"usual_rounds", 0}},
      {{"mixup", 0.0}},           {{"mixup_stage1_only", true}},
      {{"base", "fedprox"}},      {{"loss", "ce"}, {"pull", "squared"}, {"final_set", "paper"}},
      {{"usual_lr", 0.02}},       {{"stage1_fraction", 0.5}, {"stage1_draw", "code"}}};
  const Trace full = run(small_table(), 2, false);
  for (const Json& change : ablations) {
    Json table = small_table();
    table.update(change);
    EXPECT_NE(run(table, 2, false), full) << change.dump();
  }
}

// The paper's reading of everything that the released code does otherwise.
TEST(FedCorrFederation, ThePapersReadingRunsAsAWhole) {
  Json paper = small_table();
  paper.update(Json{{"loss", "ce"},
                    {"pull", "squared"},
                    {"confidence_test", ">="},
                    {"rank", "global"},
                    {"candidates", "noisy"},
                    {"final_set", "paper"},
                    {"mixup_stage1_only", true}});
  const Trace whole = run(paper, 2, false);
  EXPECT_EQ(run(paper, 1, false), whole);
  EXPECT_EQ(run(paper, 2, false, true), whole) << "resumed after every round";
  EXPECT_NE(run(small_table(), 2, false), whole);
  for (const char* key : {"pull", "mixup_stage1_only"}) {
    Json without = paper;
    without.erase(key);
    EXPECT_NE(run(without, 2, false), whole) << key;
  }
}

// A step is undone by loading what was saved before it: here the flagged clients' correction.
TEST(FedCorrFederation, AFailedRoundLeavesNoTrace) {
  Simulation simulation(small_table());
  while (simulation.round < 5) {
    simulation.play();
  }
  Archive before;
  simulation.method->save(before);
  const State global = simulation.global;
  Json notes = Json::object();
  Server server{simulation.setting, simulation.engine, simulation.global, notes};
  simulation.method->play(5, server);
  simulation.engine.rollback();
  simulation.method->load(before);
  simulation.global = global;
  simulation.play();
  EXPECT_EQ(simulation.notes["flagged"], notes["flagged"]);
  EXPECT_EQ(simulation.notes["muhat"], notes["muhat"]);
  EXPECT_EQ(simulation.method->findings().scores.at("lid").size(), 5U);
}

}  // namespace winnow::fedcorr_federation_test
