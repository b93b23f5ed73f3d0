// FedNS over real clients.
#include <gtest/gtest.h>

#include "testing/simulation.h"
#include "testing/support.h"
#include "winnow/method/system/fedns/fedns.h"

namespace winnow::fedns::fedns_run_test {

std::unique_ptr<Method> make(const std::string& name, const Json& table = Json::object()) {
  std::unique_ptr<Method> method = builtin_methods().find(name).make();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

struct Played {
  std::vector<std::string> models;  // hashes after each round
  Findings findings;
  Json notes;  // of the first round
};

// What is played.
struct Game {
  std::int64_t lanes = 2;
  std::uint64_t seed = 5;
  std::int64_t rounds = 3;
  std::vector<std::int64_t> sizes = {10, 25, 5, 20};
  NetInfo net = net_info<NormNet>("norm");
  DataSet data = tiny_data();
};

Played play(Method& method, const Game& game = {}) {
  Simulation engine(game.data, deal(game.data, game.sizes), game.net,
                    {.epochs = 2, .batch_size = 6, .lr = 0.1},
                    {.lanes = game.lanes, .seed = game.seed}, nullptr);
  engine.serve(method.client_side(), method.exchanges({}));
  const Setting setting{.seed = game.seed,
                        .rounds = game.rounds,
                        .clients = static_cast<std::int64_t>(game.sizes.size()),
                        .fraction = 1.0,
                        .classes = game.data.classes,
                        .layout = engine.crew.layout()};
  method.check(setting);
  State global = engine.initial_state(game.seed);
  Played played;
  for (std::int64_t round = 0; round < game.rounds; ++round) {
    Json notes = Json::object();
    Server server{setting, engine, global, notes};
    method.play(round, server);
    played.models.push_back(hash(global));
    if (round == 0) {
      played.notes = notes;
    }
  }
  played.findings = method.findings();
  return played;
}

// spec: input-noise F6
TEST(FedNSRun, WithEqualFactorsIsItsBaseBitForBit) {
  for (const std::string base : {"fedavg", "fedprox", "trimmed_mean", "fedavgm", "fedyogi",
                                 "scaffold", "feddyn", "geometric_median", "multi_krum"}) {
    const auto alone = make(base);
    const auto wrapped = make("fedns", {{"base", base}, {"alpha", 0.7}, {"beta", 0.7}});
    const Played played = play(*wrapped);
    EXPECT_EQ(played.models, play(*alone).models) << base;
    EXPECT_GT(played.findings.flagged->size(), 0U) << "it has sifted all the same";
  }
}

TEST(FedNSRun, TheFactorsMatter) {
  const auto usual = make("fedns");
  const auto equal = make("fedns", {{"beta", 2.0}});
  EXPECT_NE(play(*usual).models, play(*equal).models);
}

TEST(FedNSRun, DoesNotDependOnTheNumberOfLanes) {
  for (const std::string mode : {"train_restore", "train_update"}) {
    const Json table{{"score_bn", mode}};
    const auto one = make("fedns", table);
    const auto three = make("fedns", table);
    const Played first = play(*one, {.lanes = 1});
    const Played second = play(*three, {.lanes = 3});
    EXPECT_EQ(first.models, second.models);
    EXPECT_EQ(first.findings.scores, second.findings.scores);
  }
}

TEST(FedNSRun, AnyLayerMayBeScored) {
  const auto method = make("fedns", {{"score_layer", "conv.weight"}, {"score_loss", "label"}});
  EXPECT_EQ(play(*method).findings.scores.at("gradient_norm").size(), 4U);
}

TEST(FedNSRun, FindsTheClientsWhoseImagesHoldNothing) {
  DataSet data = tiny_data(180);
  data.train.images.narrow(0, 90, 90).fill_(128);
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    const auto method = make("fedns");
    const Played played = play(*method, {.seed = seed,
                                         .rounds = 1,
                                         .sizes = {30, 30, 30, 30, 30, 30},
                                         .net = net_info<TwoLayerNet>("two_layers"),
                                         .data = data});
    EXPECT_EQ(*played.findings.flagged, (std::vector<std::int64_t>{3, 4, 5})) << "seed " << seed;
    EXPECT_EQ(played.notes["clean"], 3);
    EXPECT_GT(played.notes["gap"].get<double>(), 0.0);
  }
}

}  // namespace winnow::fedns::fedns_run_test
