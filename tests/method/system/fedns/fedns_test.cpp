#include "winnow/method/system/fedns/fedns.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "testing/support.h"
#include "winnow/method/system/fedns/client.h"

namespace winnow::fedns::fedns_test {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Clients = std::vector<std::int64_t>;
const Json kDefaults = Json::object();

std::unique_ptr<FedNS> fedns(const Json& table = Json::object(), Flags flags = Flags::scores) {
  auto method = std::make_unique<FedNS>(flags);
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

// The model whose value k is 1 and whose others are 0: the mean of these shows the weights.
State unit(std::size_t k, std::size_t size) {
  const auto layout = std::make_shared<const Layout>(
      std::vector<Slot>{{"w", {static_cast<std::int64_t>(size)}, SlotKind::parameter, 0, 0}});
  State state = State::zeros(layout);
  state.flat.data_ptr<float>()[k] = 1.0F;
  return state;
}

struct Client {
  State model;
  double score = 0.0;
  std::uint32_t samples = 10;
};

// Clients of given scores with unit models.
std::vector<Client> units(const std::vector<double>& scores,
                          const std::vector<std::uint32_t>& samples = {}) {
  std::vector<Client> clients;
  for (std::size_t k = 0; k < scores.size(); ++k) {
    clients.push_back({unit(k, scores.size()), scores[k], samples.empty() ? 10U : samples[k]});
  }
  return clients;
}

// FedNS on the server side over clients whose replies are given.
struct Federation {
  Federation(std::vector<Client> given, const Json& table, double fraction = 1.0,
             Flags flags = Flags::scores)
      : clients(std::move(given)),
        setting{.seed = 4,
                .rounds = 10,
                .clients = static_cast<std::int64_t>(clients.size()),
                .fraction = fraction,
                .classes = 3},
        fleet(sizes(),
              [this](std::int64_t client, const Message& task) {
                return answer(clients.at(static_cast<std::size_t>(client)), task);
              }),
        global{clients.front().model.layout, at::zeros_like(clients.front().model.flat)},
        method(fedns(table, flags)) {}

  std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> sizes;
    for (const Client& client : clients) {
      sizes.push_back(client.samples);
    }
    return sizes;
  }
  static Message answer(const Client& client, const Message& task) {
    const bool score = task.kind() != "train";
    Message reply(task.kind() + "_done");
    reply.set("model", client.model).set("samples", client.samples);
    if (score) {
      reply.set("score", client.score);
    }
    return reply;
  }
  void play(std::int64_t round = 0) {
    notes = Json::object();
    fleet.asked.clear();
    fleet.replies.clear();
    Server server{setting, fleet, global, notes};
    method->play(round, server);
  }
  std::map<std::int64_t, std::string> kinds() const {
    std::map<std::int64_t, std::string> kinds;
    for (const Order& order : fleet.asked) {
      kinds[order.client] = order.task.kind();
    }
    return kinds;
  }
  std::vector<float> values() const { return values_of(global); }

  std::vector<Client> clients;
  Setting setting;
  FakeFleet fleet;
  State global;
  Json notes = Json::object();
  std::unique_ptr<FedNS> method;
};

std::vector<double> five_clean_of_twenty() {
  std::vector<double> scores(20, 1.0);
  std::fill(scores.begin(), scores.begin() + 5, 3.0);
  return scores;
}

// spec: input-noise F5
TEST(FedNS, GivesCleanClientsMoreWeight) {
  Federation federation(units(five_clean_of_twenty()), kDefaults);
  federation.play();
  double clean = 0.0;
  for (std::size_t k = 0; k < 20; ++k) {
    EXPECT_NEAR(federation.values()[k], k < 5 ? 0.137931 : 0.0206897, 1e-6);
    clean += k < 5 ? federation.values()[k] : 0.0;
  }
  EXPECT_NEAR(clean, 0.689655, 1e-6);
  EXPECT_EQ(federation.notes["clean"], 5);
  EXPECT_EQ(federation.notes["noisy"], 15);
  EXPECT_EQ(federation.notes["gap"], 2.0);
  EXPECT_EQ(federation.notes["scoring"], true);
  EXPECT_FALSE(federation.notes.contains("warning"));
}

// spec: input-noise F5, F8
TEST(FedNS, MultipliesTheFactorsWithTheSamples) {
  const auto expect_weights = [](Federation& federation, const std::vector<double>& expected) {
    federation.play();
    for (std::size_t k = 0; k < expected.size(); ++k) {
      EXPECT_NEAR(federation.values()[k], expected[k], 1e-6) << k;
    }
  };
  Federation three(units({3, 1, 3}, {100, 200, 300}), kDefaults);
  expect_weights(three, {0.232558, 0.069767, 0.697674});
  Federation other(units({3, 1, 1}, {2500, 2500, 5000}), kDefaults);
  expect_weights(other, {0.689655, 0.103448, 0.206897});
  Federation uncounted(units({3, 1, 3}, {100, 200, 300}), {{"use_counts", false}});
  expect_weights(uncounted, {2 / 4.3, 0.3 / 4.3, 2 / 4.3});
}

// spec: input-noise 1.4
TEST(FedNS, WithoutRenormalisingShrinksTheStep) {
  std::vector<Client> clients;
  for (const double score : five_clean_of_twenty()) {
    clients.push_back({state_of({9}, {9}, {9}), score});
  }
  Federation federation(clients, {{"renormalise", false}});
  federation.global = state_of({1}, {1}, {1});
  federation.play();
  EXPECT_EQ(federation.values(), (std::vector<float>{6.8F, 9.0F, 9.0F}))
      << "0.725 of 8; statistics and counters are no step";
}

// All clients clean: the step of the parameters is doubled. Running variances taken as a step from
// 1 to less than a half would fall below zero.
TEST(FedNS, WithoutRenormalisingLeavesRunningStatisticsTheirMean) {
  const NormNet net(shape_of(tiny_data()));
  const auto layout = net.weights().layout();
  const Slot* variance = layout->find("norm.running_var");
  ASSERT_NE(variance, nullptr);
  std::vector<Client> clients;
  for (const auto& [value, samples] : {std::pair{0.1F, 10U}, {0.1F, 20U}, {0.3F, 30U}}) {
    State model = net.weights().initial(1).clone();
    model.parameters().fill_(value);
    model.view(*variance).fill_(value);
    model.counters().fill_(4);
    clients.push_back({model, 5.0, samples});
  }
  Federation federation(clients, {{"renormalise", false}});
  federation.global = net.weights().initial(1);
  federation.global.parameters().zero_();
  federation.play();
  const State& next = federation.global;
  EXPECT_TRUE(at::allclose(next.view(*variance), at::full_like(next.view(*variance), 0.2)));
  EXPECT_TRUE(at::allclose(next.parameters(), at::full_like(next.parameters(), 2 * 0.2)));
  EXPECT_TRUE(next.counters().eq(4).all().item<bool>());
}

// spec: input-noise F6
TEST(FedNS, ScalingBothFactorsChangesNothing) {
  const std::vector<Client> clients = units({3, 1, 3, 1.2}, {10, 20, 30, 40});
  Federation usual(clients, kDefaults);
  Federation scaled(clients, {{"alpha", 20.0}, {"beta", 3.0}});
  usual.play();
  scaled.play();
  EXPECT_LT((usual.global.flat - scaled.global.flat).abs().max().item<double>(), 1e-7);
}

// spec: input-noise F6
TEST(FedNS, WithBetaZeroNoisyClientsHaveNoInfluence) {
  for (const char* base : {"fedavg", "trimmed_mean"}) {
    const auto result = [&](float noisy) {
      std::vector<Client> clients;
      for (const float value : {1.0F, 2.0F, 3.0F, 4.0F, 100.0F}) {
        clients.push_back({state_of({value}), 5.0});
      }
      for (int i = 0; i < 3; ++i) {
        clients.push_back({state_of({noisy}), 1.0});
      }
      Federation federation(clients, {{"base", base}, {"beta", 0.0}});
      federation.play();
      return federation.values().front();
    };
    EXPECT_EQ(result(-50.0F), result(7e5F)) << base;
    EXPECT_FLOAT_EQ(result(0.0F), std::string(base) == "fedavg" ? 22.0F : 3.0F);
  }
}

TEST(FedNS, KeepsTheModelWhenOnlyNoisyClientsOfNoWeightTakePart) {
  Federation federation(units({3, 1, 3, 1}), {{"beta", 0.0}}, 0.25);
  federation.play(0);
  bool kept = false;
  for (std::int64_t round = 1; round < 12; ++round) {
    const State before = federation.global;
    federation.play(round);
    const std::int64_t client = federation.fleet.asked.front().client;
    const bool noisy = client == 1 || client == 3;
    EXPECT_EQ(hash(federation.global) == hash(before) && federation.notes.contains("warning"),
              noisy);
    kept = kept || noisy;
  }
  EXPECT_TRUE(kept);
}

// spec: input-noise F9
TEST(FedNS, TrimsFirstAndWeighsTheSurvivors) {
  std::vector<Client> clients;
  for (const auto& [value, score] : std::vector<std::pair<float, double>>{
           {1.0F, 3.0}, {2.0F, 1.0}, {3.0F, 3.0}, {5.0F, 1.0}, {100.0F, 3.0}}) {
    clients.push_back({state_of({value}), score});
  }
  clients[1].samples = 500;  // ignored
  const auto result = [&](const Json& table) {
    Federation federation(clients, table);
    federation.play();
    return federation.values().front();
  };
  EXPECT_NEAR(result({{"base", "trimmed_mean"}}), 3.115385, 1e-6);
  EXPECT_NEAR(result({{"base", "trimmed_mean"}, {"trim_literal", true}}), 31.833333, 1e-5);
  EXPECT_NEAR(result({{"base", "trimmed_mean"}, {"alpha", 1}, {"beta", 1}}), 3.333333, 1e-6);
}

TEST(FedNS, ReusesItsFlagsInLaterRounds) {
  Federation federation(units(five_clean_of_twenty()), kDefaults);
  federation.play(0);
  const std::vector<float> first = federation.values();
  for (Client& client : federation.clients) {
    client.score = 4.0 - client.score;  // would swap the groups
  }
  federation.play(1);
  EXPECT_EQ(federation.values(), first);
  for (const auto& [client, kind] : federation.kinds()) {
    EXPECT_EQ(kind, "train") << client;
  }
  EXPECT_EQ(federation.notes["scoring"], false);
  EXPECT_FALSE(federation.notes.contains("gap"));
}

TEST(FedNS, ReportsWhatItFound) {
  Federation federation(units({3, 1, kNaN, 1.5, 3.5}), kDefaults);
  EXPECT_FALSE(federation.method->findings().flagged);
  federation.play();
  const Findings findings = federation.method->findings();
  EXPECT_EQ(*findings.flagged, (Clients{1, 2, 3}));
  EXPECT_EQ(findings.scores.at("gradient_norm"),
            (std::map<std::int64_t, double>{{0, 3.0}, {1, 1.0}, {3, 1.5}, {4, 3.5}}));
  EXPECT_TRUE(findings.noise_levels.empty());
}

// spec: input-noise 1.3 #4
TEST(FedNS, AggregatesAClientWithoutAFiniteScoreAsNoisy) {
  Federation federation(units({3, kNaN, 3.1}), {{"alpha", 1.0}, {"beta", 0.5}});
  federation.play();
  // 3 against 3.1 are told apart, so 0 is noisy as well.
  EXPECT_EQ(*federation.method->findings().flagged, (Clients{0, 1}));
  EXPECT_NEAR(federation.values()[1], 0.25, 1e-6);
}

// A client with one batch has one norm and no variance; 0 would be the lowest score of all.
TEST(FedNS, AVarianceOfOneNormIsNoScore) {
  const std::vector<Client> clients = units({3, 1, 0, 3.1, 1.1, 0}, {17, 40, 16, 40, 40, 3});
  Federation federation(clients, {{"score_stat", "var"}});
  federation.play(0);
  EXPECT_EQ(federation.notes["too_small"], (Json{2, 5}));
  EXPECT_EQ(federation.notes["clean"], 4);
  EXPECT_EQ(federation.notes["noisy"], 2);
  EXPECT_EQ(*federation.method->findings().flagged, (Clients{1, 4}));
  EXPECT_FALSE(federation.method->findings().scores.at("gradient_norm").contains(2));
  Archive archive;
  federation.method->save(archive);
  Federation resumed(clients, {{"score_stat", "var"}});
  resumed.method->load(archive);
  resumed.play(1);
  EXPECT_EQ(resumed.kinds().at(2), "train") << "it does not hold the table open";
  Federation mean(clients, kDefaults);
  mean.play(0);
  EXPECT_FALSE(mean.notes.contains("too_small")) << "one norm has a mean";
}

TEST(FedNS, AModelThatIsNotFiniteBringsNoScore) {
  std::vector<Client> clients = units({3, 1, 3.2, 1.1, 1.2});
  clients[1].model.flat.fill_(std::numeric_limits<float>::infinity());
  Federation federation(clients, kDefaults);
  federation.play(0);
  EXPECT_EQ(federation.notes["rejected"], Json{1});
  EXPECT_FALSE(federation.method->findings().scores.at("gradient_norm").contains(1));
  federation.clients[1].model = unit(1, 5);
  federation.play(1);
  EXPECT_EQ(federation.kinds().at(0), "train_score") << "still open";
  EXPECT_EQ(*federation.method->findings().flagged, (Clients{1, 3, 4}));
  federation.play(2);
  EXPECT_EQ(federation.kinds().at(0), "train");
}

TEST(FedNS, EqualScoresMakeItsBaseWithAWarning) {
  Federation federation(units({2, 2, 2, 2}, {10, 20, 30, 40}), kDefaults);
  federation.play();
  EXPECT_EQ(federation.notes["warning"],
            "the scores do not tell clients apart: all with a finite score are clean");
  EXPECT_EQ(federation.notes["noisy"], 0);
  EXPECT_TRUE(federation.method->findings().flagged->empty());
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_FLOAT_EQ(federation.values()[k], 0.1F * static_cast<float>(k + 1));
  }
}

TEST(FedNS, OneClientIsClean) {
  Federation federation(units({2}), kDefaults);
  federation.play(0);
  EXPECT_EQ(federation.values(), std::vector<float>{1.0F});
  EXPECT_TRUE(federation.notes.contains("warning"));
  federation.play(1);
  EXPECT_EQ(federation.kinds().at(0), "train") << "the table is complete";
}

TEST(FedNS, ClientsWithoutSamplesDoNotHoldTheTableOpen) {
  Federation federation(units({3, 1, 3}, {10, 0, 10}), kDefaults);
  federation.play(0);
  federation.play(1);
  EXPECT_EQ(federation.kinds(), (std::map<std::int64_t, std::string>{{0, "train"}, {2, "train"}}));
}

// spec: input-noise 1.5
TEST(FedNS, APartialFirstRoundStaysOpenUntilAllHaveScored) {
  Federation federation(units({3, 1, 3.1, 1.1, 1.2, 2.9, 1, 1.3}), {{"first_round_fraction", 0.25}},
                        0.375);
  std::map<std::int64_t, double> known;
  bool complete = false;
  int early = 0;
  std::int64_t round = 0;
  for (; !complete && round < 60; ++round) {
    federation.play(round);
    EXPECT_EQ(federation.fleet.asked.size(), round == 0 ? 2U : 3U);
    for (const auto& [client, kind] : federation.kinds()) {
      EXPECT_EQ(kind, "train_score");
      known[client] = federation.clients[static_cast<std::size_t>(client)].score;
    }
    const Findings findings = federation.method->findings();
    EXPECT_EQ(findings.scores.at("gradient_norm"), known);
    if (known.size() < 4) {
      ++early;
      EXPECT_FALSE(findings.flagged) << "fewer than 4 scores say nothing";
      EXPECT_THAT(federation.notes["warning"].get<std::string>(),
                  testing::HasSubstr("scores so far: all clients count as clean"));
    } else {
      Clients noisy;
      for (const auto& [client, score] : known) {
        if (score < 2.0) {
          noisy.push_back(client);
        }
      }
      EXPECT_EQ(*findings.flagged, noisy) << "a client without a score counts as clean";
    }
    complete = known.size() == 8;
  }
  ASSERT_TRUE(complete);
  EXPECT_GT(early, 0);
  EXPECT_GT(round, 2);
  federation.play(round);
  EXPECT_EQ(federation.kinds().begin()->second, "train") << "frozen";
}

// spec: input-noise 1.5
TEST(FedNS, ScoresAreRefreshedWhileTheTableIsOpen) {
  const auto kinds_of_second_round = [](bool refresh) {
    Federation federation(units({3, 1, 3.1, 1.1, 1.2}),
                          {{"first_round_fraction", 0.8}, {"refresh", refresh}}, 1.0);
    federation.play(0);
    EXPECT_EQ(federation.fleet.asked.size(), 4U);
    for (Client& client : federation.clients) {
      client.score += 10.0;
    }
    federation.play(1);
    int scored = 0;
    for (const auto& [client, kind] : federation.kinds()) {
      scored += kind == "train_score" ? 1 : 0;
    }
    const Findings findings = federation.method->findings();
    int renewed = 0;
    for (const auto& [client, score] : findings.scores.at("gradient_norm")) {
      renewed += score > 10.0 ? 1 : 0;
    }
    EXPECT_EQ(renewed, scored);
    for (std::size_t i = 0; i < federation.fleet.asked.size(); ++i) {
      EXPECT_NO_THROW(check(federation.fleet.asked[i].task, federation.method->exchanges({})));
      EXPECT_NO_THROW(check(federation.fleet.replies[i], federation.method->exchanges({})));
    }
    return scored;
  };
  EXPECT_EQ(kinds_of_second_round(true), 5);
  EXPECT_EQ(kinds_of_second_round(false), 1) << "first-timers only";
}

TEST(FedNS, AfterTheFirstRoundTakesTheUsualShare) {
  Federation federation(units(five_clean_of_twenty()), kDefaults, 0.2);
  federation.play(0);
  EXPECT_EQ(federation.fleet.asked.size(), 20U);
  federation.play(1);
  EXPECT_EQ(federation.fleet.asked.size(), 4U);
}

TEST(FedNS, AskingForAScoreCostsEightBytesUp) {
  // P = 4 values.
  Federation federation(units({3, 1, 3, 1}), kDefaults);
  federation.play(0);
  for (std::size_t i = 0; i < 4; ++i) {
    const Message& task = federation.fleet.asked[i].task;
    const Message& reply = federation.fleet.replies[i];
    EXPECT_EQ(task.kind(), "train_score");
    EXPECT_EQ(reply.kind(), "train_score_done");
    EXPECT_NO_THROW(check(task, federation.method->exchanges({})));
    EXPECT_NO_THROW(check(reply, federation.method->exchanges({})));
    EXPECT_EQ(task.bytes(), 4 + 4 * 4);
    EXPECT_EQ(reply.bytes(), 4 * 4 + 4 + 8);
  }
  federation.play(1);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(federation.fleet.asked[i].task.bytes(), 4 + 4 * 4);
    EXPECT_EQ(federation.fleet.replies[i].bytes(), 4 * 4 + 4);
    EXPECT_NO_THROW(check(federation.fleet.replies[i], federation.method->exchanges({})));
  }
  EXPECT_EQ(federation.fleet.traffic().bytes_down, 2 * 4 * 20);
  EXPECT_EQ(federation.fleet.traffic().bytes_up, 4 * 28 + 4 * 20);
}

TEST(FedNS, SavesAndLoadsAnOpenTable) {
  const Json table{{"first_round_fraction", 0.5}, {"refresh", false}};
  const std::vector<Client> clients = units({3, 1, 3.1, kNaN, 1.2, 2.9, 1, kNaN});
  for (std::int64_t cut = 0; cut < 6; ++cut) {
    Federation whole(clients, table, 0.25);
    Federation resumed(clients, table, 0.25);
    Archive archive;
    for (std::int64_t round = 0; round < 8; ++round) {
      if (round == cut) {
        whole.method->save(archive);
        resumed.global = whole.global;
        archive = out_of_a_file(archive);
        archive.values = Json::parse(archive.values.dump());
        resumed.method->load(archive);
      }
      whole.play(round);
      if (round >= cut) {
        resumed.play(round);
        EXPECT_EQ(hash(resumed.global), hash(whole.global)) << cut << " " << round;
        EXPECT_EQ(resumed.kinds(), whole.kinds());
        EXPECT_EQ(resumed.method->findings().flagged, whole.method->findings().flagged);
      }
    }
  }
}

TEST(FedNS, LoadTakesBackARound) {
  Federation federation(units({3, 1, 3.1, 1.2}), kDefaults);
  Archive before;
  federation.method->save(before);
  federation.play(0);
  federation.method->load(before);
  EXPECT_FALSE(federation.method->findings().flagged);
  EXPECT_TRUE(federation.method->findings().scores.empty());
  federation.play(0);
  EXPECT_EQ(federation.kinds().at(0), "train_score");
}

TEST(FedNS, PutsAllNormsIntoTheEventsForDebugging) {
  Federation federation(units({3, 1}), {{"debug_density", true}});
  FakeFleet fleet({10, 10}, [&](std::int64_t client, const Message& task) {
    return Federation::answer(federation.clients.at(static_cast<std::size_t>(client)), task)
        .set("norms", std::vector<double>{1.0, static_cast<double>(client)});
  });
  Server server{federation.setting, fleet, federation.global, federation.notes};
  federation.method->play(0, server);
  EXPECT_EQ(federation.notes["norms"].dump(),
            R"([{"client":0,"norms":[1.0,0.0]},{"client":1,"norms":[1.0,1.0]}])");
  EXPECT_NO_THROW(check(fleet.replies[0], federation.method->exchanges({})));
  EXPECT_EQ(fleet.replies[0].bytes(), 4 * 2 + 4 + 8 + 16);
}

TEST(FedNS, MeasuresNormsInLaterRoundsWithoutJudgingByThem) {
  Federation plain(units({3, 3, 1, 1}), Json::object());
  Federation measured(units({3, 3, 1, 1}), {{"norms_every", 2}});
  for (std::int64_t round = 0; round < 4; ++round) {
    // Later scores say the opposite.
    for (Federation* federation : {&plain, &measured}) {
      for (std::size_t k = 0; round > 0 && k < federation->clients.size(); ++k) {
        federation->clients[k].score = static_cast<double>(10 * round) + static_cast<double>(k);
      }
      federation->play(round);
    }
    EXPECT_EQ(values_of(measured.global), values_of(plain.global)) << "round " << round;
    EXPECT_EQ(measured.method->findings().flagged, plain.method->findings().flagged);
    EXPECT_EQ(measured.method->findings().scores, plain.method->findings().scores);
    EXPECT_EQ(measured.kinds().at(0),
              std::vector<std::string>({"train_score", "train", "train_measure", "train"})
                  .at(static_cast<std::size_t>(round)));
    for (const Message& reply : measured.fleet.replies) {
      EXPECT_NO_THROW(check(reply, measured.method->exchanges({})));
    }
  }
  EXPECT_TRUE(plain.method->details().series.empty());
  const auto series = measured.method->details().series.at("gradient_norm");
  ASSERT_EQ(series.size(), 2U) << "rounds 0 and 2";
  EXPECT_EQ(series[0], (std::map<std::int64_t, double>{{0, 3}, {1, 3}, {2, 1}, {3, 1}}));
  EXPECT_EQ(series[1], (std::map<std::int64_t, double>{{0, 20}, {1, 21}, {2, 22}, {3, 23}}));
  Archive archive;
  measured.method->save(archive);
  const auto loaded = fedns({{"norms_every", 2}}, Flags::scores);
  loaded->load(archive);
  EXPECT_EQ(loaded->details().series.at("gradient_norm"), series);
}

TEST(FedNSOracle, KnowsTheFlagsAndNeverScores) {
  Federation federation(units({0, 0, 0}, {100, 200, 300}), kDefaults, 1.0, Flags::truth);
  federation.setting.noisy_clients = {1};
  const std::vector<double> expected{0.232558, 0.069767, 0.697674};
  for (std::int64_t round = 0; round < 2; ++round) {
    federation.play(round);
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(federation.kinds().at(static_cast<std::int64_t>(k)), "train");
      EXPECT_NEAR(federation.values()[k], expected[k], 1e-6);
    }
  }
  EXPECT_FALSE(federation.method->findings().flagged) << "it has found nothing itself";
  EXPECT_TRUE(federation.method->findings().scores.empty());
  EXPECT_FALSE(federation.notes.contains("scoring"));
}

// As many participations as the method it bounds.
TEST(FedNSOracle, HasTheFirstRoundOfFedNS) {
  for (const auto& [first, expected] : {std::pair{1.0, 20U}, {0.5, 10U}}) {
    Federation federation(units(five_clean_of_twenty()), {{"first_round_fraction", first}}, 0.2,
                          Flags::truth);
    federation.play(0);
    EXPECT_EQ(federation.fleet.asked.size(), expected);
    federation.play(1);
    EXPECT_EQ(federation.fleet.asked.size(), 4U);
  }
}

TEST(FedNSOracle, SaysThatItUsesGroundTruth) {
  const MethodInfo info = fedns_oracle_flags_info();
  EXPECT_EQ(info.truth, Truth::clients);
  EXPECT_EQ(info.group, "oracle");
  EXPECT_THAT(info.summary, testing::StartsWith("uses ground truth"));
  EXPECT_EQ(fedns_info().truth, Truth::none);
  EXPECT_THAT(error_text([] {
                fedns({{"score_batch", 8}}, Flags::truth);
              }),
              testing::HasSubstr("method.score_batch"));
}

TEST(FedNS, HasTheDocumentedDefaults) {
  FedNS method;
  Params params;
  method.declare(params);
  EXPECT_EQ(params.values().dump(),
            R"({"base":{"name":"fedavg","weighting":"samples"},"alpha":2.0,"beta":0.3,)"
            R"("use_counts":true,"renormalise":true,"trim_literal":false,)"
            R"("first_round_fraction":1.0,"score_batch":16,"score_norm":1,)"
            R"("score_loss":"uniform","score_temperature":1.0,"score_stat":"mean",)"
            R"("score_bn":"train_restore","score_layer":"","refresh":true,"debug_density":false,)"
            R"("norms_every":0})");
}

TEST(FedNS, RefusesWhatMakesNoSense) {
  const auto text = [](const Json& table) { return error_text([&] { fedns(table); }); };
  EXPECT_THAT(text({{"alpha", 0.0}}), testing::HasSubstr("method.alpha"));
  EXPECT_THAT(text({{"beta", -0.1}}), testing::HasSubstr("method.beta"));
  EXPECT_THAT(text({{"score_norm", 3}}), testing::HasSubstr("method.score_norm"));
  EXPECT_THAT(text({{"score_batch", 0}}), testing::HasSubstr("method.score_batch"));
  EXPECT_THAT(text({{"score_stat", "max"}}), testing::HasSubstr("mean, var, median"));
  EXPECT_THAT(
      text({{"base", "fedpros"}}),
      testing::AllOf(testing::StartsWith("method.base = \"fedpros\": expected one of fedavg,"),
                     testing::HasSubstr("did you mean 'fedprox'?")));
  for (const char* base : {"median", "krum", "bulyan", "arfl"}) {
    const auto method = fedns({{"base", base}});
    EXPECT_EQ(error_text([&] { method->check({.clients = 2}); }),
              fmt::format("method.base = \"{}\": FedNS weights clients, but {} weights all models "
                          "equally | choose a base that averages, such as fedavg, fednova or "
                          "trimmed_mean",
                          base, base));
    EXPECT_EQ(error_kind([&] { method->check({.clients = 2}); }), ErrorKind::experiment);
  }
}

TEST(FedNS, RefusesABaseThatCannotUseTheModelsOfARound) {
  const Json half{{"name", "trimmed_mean"}, {"trim", 0.5}};
  const auto refusal = [&](double first, bool literal, const Setting& setting) {
    return error_text([&] {
      fedns({{"base", half}, {"first_round_fraction", first}, {"trim_literal", literal}})
          ->check(setting);
    });
  };
  EXPECT_EQ(refusal(1.0, false, {.clients = 5, .fraction = 1.0}), "no error");
  EXPECT_EQ(refusal(1.0, false, {.clients = 6, .fraction = 0.5}),
            "method.first_round_fraction = 1 of 6 clients: base trimmed_mean drops 3 of 6 models "
            "at each end, which leaves none | change method.first_round_fraction or lower trim");
  EXPECT_EQ(refusal(0.5, false, {.clients = 6, .fraction = 1.0}),
            "federation.fraction = 1 of 6 clients: trimmed_mean drops 3 of 6 models at each end, "
            "which leaves none | raise federation.fraction or lower trim");
  EXPECT_EQ(refusal(1.0, true, {.clients = 6, .fraction = 1.0}), "no error")
      << "the literal reading does not trim";
  EXPECT_NO_THROW(fedns({{"base", half}, {"first_round_fraction", 0.5}}, Flags::truth)
                      ->check({.clients = 6, .fraction = 0.5}));
}

TEST(FedNS, ChecksTheLayerAndTheLiteralTrim) {
  const Setting setting{
      .seed = 1,
      .layout =
          TwoLayerNet({.classes = 3, .channels = 1, .height = 8, .width = 8}).weights().layout()};
  EXPECT_NO_THROW(fedns({{"score_layer", "hidden.weight"}})->check(setting));
  EXPECT_NO_THROW(fedns({{"score_layer", "anything"}})->check({}));
  EXPECT_EQ(
      error_text([&] {
        fedns({{"score_layer", "hiden.weight"}})->check(setting);
      }),
      "method.score_layer = \"hiden.weight\": the network has no parameter of that name | did "
      "you mean 'hidden.weight'?");
  EXPECT_EQ(error_text([&] {
              fedns({{"trim_literal", true}})->check(setting);
            }),
            "method.trim_literal = true: expected base = \"trimmed_mean\", not fedavg | leave "
            "trim_literal out");
  EXPECT_NO_THROW(fedns({{"trim_literal", true}, {"base", "trimmed_mean"}})->check(setting));
}

// One client that is away must not make all others score again and again.
TEST(FedNSAbsences, ScoringClosesWithoutThoseWhoAreAway) {
  Federation federation(units({1, 1, 1, 1, 5, 5}), {{"first_round_fraction", 1.0}});
  bool away = true;
  federation.fleet.away = [&away](std::int64_t client, const Message&) {
    return away && client == 5;
  };
  federation.play(0);
  EXPECT_EQ(federation.kinds().size(), 5U);
  EXPECT_EQ(federation.kinds().at(0), "train_score");
  federation.play(1);
  EXPECT_EQ(federation.kinds().at(0), "train") << "the table is closed";
  away = false;
  federation.play(2);
  EXPECT_EQ(federation.kinds().at(0), "train");
  EXPECT_EQ(federation.kinds().at(5), "train_score") << "it scores once it is back";
  federation.play(3);
  EXPECT_EQ(federation.kinds().at(5), "train");
  EXPECT_EQ(federation.method->findings().scores.at("gradient_norm").size(), 6U);
}

TEST(FedNSAbsences, NobodyLeavesTheModelAsItIs) {
  Federation federation(units({1, 1, 5, 5}), {{"first_round_fraction", 1.0}});
  federation.fleet.away = [](std::int64_t, const Message&) { return true; };
  const std::string before = hash(federation.global);
  federation.play(0);
  EXPECT_EQ(hash(federation.global), before);
  EXPECT_TRUE(federation.notes.contains("standstill"));
}

}  // namespace winnow::fedns::fedns_test
