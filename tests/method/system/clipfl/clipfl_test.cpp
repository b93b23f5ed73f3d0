#include "winnow/method/system/clipfl/clipfl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "testing/support.h"
#include "winnow/federation/selection.h"
#include "winnow/judge/quality.h"

namespace winnow::clipfl::clipfl_test {

using Ids = std::vector<std::int64_t>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::unique_ptr<ClipFL> clipfl(const Json& table) {
  auto method = std::make_unique<ClipFL>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

// ClipFL on the server side, over clients whose models and accuracies are given.
struct Federation {
  using Accuracy = std::function<double(std::int64_t round, std::int64_t client)>;

  Federation(const Json& table, const Ids& sizes, Accuracy says, Setting facts)
      : setting(std::move(facts)),
        fleet(sizes,
              [this](std::int64_t client, const Message& task) { return reply(client, task); }),
        accuracy(std::move(says)),
        method(clipfl(table)) {
    setting.clients = fleet.size();
    setting.classes = 3;
    for (std::size_t client = 0; client < sizes.size(); ++client) {
      models.push_back(state_of({static_cast<float>(client)}));
    }
  }

  Federation(const Federation&) = delete;
  Federation& operator=(const Federation&) = delete;

  Message reply(std::int64_t client, const Message& task) const {
    if (task.kind() == "dismiss") {
      return Message("dismissed");
    }
    return Message("train_done")
        .set("model", models[static_cast<std::size_t>(client)])
        .set("samples", static_cast<std::uint32_t>(fleet.samples(client)));
  }
  std::vector<Score> validate(std::int64_t round, const std::vector<State>& measured) {
    std::vector<Score> scores;
    for (const State& model : measured) {
      const auto owner = std::ranges::find_if(models, [&](const State& known) {
        return known.flat.data_ptr() == model.flat.data_ptr();
      });
      const double share = accuracy(round, owner - models.begin());
      scores.push_back({std::llround(share * 1000), 1000, 0.0});
      ++validations;
    }
    return scores;
  }
  void play(std::int64_t round) {
    notes = Json::object();
    fleet.asked.clear();
    fleet.replies.clear();
    Server server{setting, fleet, global, notes, [this, round](const std::vector<State>& models) {
                    return validate(round, models);
                  }};
    method->play(round, server);
    for (const Order& order : fleet.asked) {
      trainings += order.task.kind() == "train" ? 1 : 0;
      check(order.task, method->exchanges({}));
    }
    for (const Message& each : fleet.replies) {
      check(each, method->exchanges({}));
    }
  }
  void play_until(std::int64_t end, std::int64_t start = 0) {
    for (std::int64_t round = start; round < end; ++round) {
      play(round);
    }
  }
  Ids asked(const std::string& kind) const {
    Ids clients;
    for (const Order& order : fleet.asked) {
      if (order.task.kind() == kind) {
        clients.push_back(order.client);
      }
    }
    return clients;
  }
  double ncs(std::int64_t client) const {
    const std::map<std::int64_t, double> scores = method->findings().scores.at("ncs");
    return scores.contains(client) ? scores.at(client) : 0.0;
  }
  double total_ncs() const {
    double total = 0.0;
    const std::map<std::int64_t, double> scores = method->findings().scores.at("ncs");
    for (const auto& [client, score] : scores) {
      total += score;
    }
    return total;
  }

  Setting setting;
  FakeFleet fleet;
  Accuracy accuracy;
  std::unique_ptr<ClipFL> method;
  std::vector<State> models;
  State global = state_of({0});
  Json notes = Json::object();
  std::int64_t trainings = 0;
  std::int64_t validations = 0;
};

// spec: label-noise C.7 #3; with this seed the first four rounds choose the clients of the script.
Federation scripted(double prune, const std::string& tie = "ratio") {
  const std::vector<std::map<std::int64_t, double>> script{{{0, .50}, {1, .42}, {2, .30}},
                                                           {{3, .55}, {4, .31}, {5, .40}},
                                                           {{2, .28}, {4, .33}, {5, .45}},
                                                           {{0, .60}, {3, .52}, {5, .49}}};
  return {{{"pre_rounds", 4}, {"keep", 2}, {"prune", prune}, {"tie", tie}},
          {5, 5, 5, 5, 5, 5},
          [script](std::int64_t round, std::int64_t client) {
            return script.at(static_cast<std::size_t>(round)).at(client);
          },
          {.seed = 249498, .rounds = 7, .fraction = 0.5, .validation = 1000}};
}

TEST(ClipFL, PlaysTheScript) {
  Federation federation = scripted(0.5);
  for (std::int64_t round = 0; round < 4; ++round) {
    federation.play(round);
    EXPECT_EQ(federation.notes["phase"], "I");
    EXPECT_EQ(federation.notes["dropped"], 1);
    EXPECT_FALSE(federation.notes.contains("pruned"));
    EXPECT_FALSE(federation.method->findings().flagged.has_value());
  }
  Ids counts;
  for (std::int64_t client = 0; client < 6; ++client) {
    counts.push_back(static_cast<std::int64_t>(federation.ncs(client)));
  }
  EXPECT_EQ(counts, (Ids{0, 0, 2, 0, 1, 1}));

  federation.play(4);
  EXPECT_EQ(federation.asked("dismiss"), (Ids{2, 4, 5}));
  EXPECT_EQ(federation.notes["phase"], "III");
  EXPECT_EQ(federation.notes["pruned"], (Json{2, 4, 5}));
  EXPECT_EQ(federation.notes["pruned_count"], 3);
  EXPECT_EQ(federation.asked("train"), select_uniform(Ids{0, 1, 3}, 1, 249498, 4));
  const Findings found = federation.method->findings();
  EXPECT_EQ(found.flagged, (Ids{2, 4, 5}));
  EXPECT_DOUBLE_EQ(found.scores.at("ncs_ratio").at(4), 0.5);
  EXPECT_DOUBLE_EQ(found.scores.at("validation_accuracy").at(2), 0.29);
  EXPECT_EQ(federation.validations, 12);

  federation.play(5);
  EXPECT_TRUE(federation.asked("dismiss").empty());
  EXPECT_EQ(federation.asked("train").size(), 1U);
  EXPECT_FALSE(federation.notes.contains("pruned"));
  EXPECT_FALSE(federation.notes.contains("dropped"));
  EXPECT_EQ(federation.validations, 12) << "nothing is validated after pruning";
}

TEST(ClipFL, PrunesAShareRoundedDown) {
  for (const std::string tie : {"ratio", "id"}) {
    Federation federation = scripted(0.34, tie);
    federation.play_until(5);
    EXPECT_EQ(federation.method->findings().flagged, (Ids{2, 4})) << tie;
  }
}

// spec: label-noise C.7 #4
TEST(ClipFL, DropsTheHighestIdWhenAllAreEqual) {
  Federation federation({{"pre_rounds", 1}, {"keep", 2}}, {0, 5, 0, 5, 0, 5},
                        [](std::int64_t, std::int64_t) { return 0.5; },
                        {.seed = 4, .rounds = 1, .fraction = 1.0, .validation = 1000});
  federation.play(0);
  EXPECT_EQ(federation.ncs(5), 1.0);
  EXPECT_EQ(federation.total_ncs(), 1.0);
  EXPECT_EQ(values_of(federation.global), std::vector<float>{2.0F}) << "of clients 1 and 3";
}

TEST(ClipFL, DropsNobodyFromASmallRound) {
  Federation federation({{"pre_rounds", 1}, {"keep", 2}}, {5, 5},
                        [](std::int64_t, std::int64_t client) { return client == 0 ? 0.9 : 0.1; },
                        {.seed = 4, .rounds = 1, .fraction = 1.0, .validation = 1000});
  federation.play(0);
  EXPECT_EQ(federation.total_ncs(), 0.0);
  EXPECT_EQ(federation.notes["dropped"], 0);
  EXPECT_EQ(values_of(federation.global), std::vector<float>{0.5F});
}

// spec: label-noise C.7 #5
TEST(ClipFL, FusesTheKeptModelsOnly) {
  const std::vector<double> accuracies{.5, .6, .1};
  const auto fused = [&](const std::string& fuse, float third) {
    Federation federation({{"pre_rounds", 1}, {"keep", 2}, {"fuse", fuse}}, {10, 30, 60},
                          [&](std::int64_t, std::int64_t client) {
                            return accuracies[static_cast<std::size_t>(client)];
                          },
                          {.seed = 4, .rounds = 1, .fraction = 1.0, .validation = 1000});
    federation.models = {state_of({1}), state_of({2}), state_of({third})};
    federation.play(0);
    EXPECT_EQ(federation.ncs(2), 1.0) << "flagged whatever is fused";
    return values_of(federation.global).front();
  };
  EXPECT_FLOAT_EQ(fused("kept", 9), 1.75F);
  EXPECT_FLOAT_EQ(fused("kept", -900), 1.75F);
  EXPECT_FLOAT_EQ(fused("all", 9), 6.1F);
}

// spec: label-noise C.7 #6, #11: 100 clients, ten per round, half of them noisy.
Federation of_the_paper(const Json& changes = Json::object()) {
  Json table{{"pre_rounds", 80}, {"keep", 5}, {"prune", 0.5}};
  table.update(changes);
  return {table,
          Ids(100, 450),
          [](std::int64_t round, std::int64_t client) {
            return (client % 2 == 0 ? 0.6 : 0.4) + 0.001 * static_cast<double>(round % 7);
          },
          {.seed = 1, .rounds = 120, .fraction = 0.1, .validation = 5000}};
}

TEST(ClipFL, SavesASixthOfTheParticipations) {
  Federation federation = of_the_paper();
  std::map<std::int64_t, double> sampled;
  std::map<std::int64_t, double> before;
  for (std::int64_t round = 0; round < 120; ++round) {
    federation.play(round);
    const Ids trained = federation.asked("train");
    EXPECT_EQ(trained.size(), round < 80 ? 10U : 5U);
    for (const std::int64_t client : trained) {
      if (round < 80) {
        ++sampled[client];
      } else {
        EXPECT_FALSE(std::ranges::count(*federation.method->findings().flagged, client))
            << "a pruned client was asked";
      }
    }
    if (round == 79) {
      before = federation.method->findings().scores.at("ncs");
      EXPECT_EQ(federation.total_ncs(), 400.0);
      for (const auto& [client, score] : before) {
        EXPECT_LE(score, sampled.at(client));
      }
    }
  }
  EXPECT_EQ(federation.trainings, 1000);
  EXPECT_EQ(federation.validations, 800);
  EXPECT_EQ(federation.method->findings().flagged->size(), 50U);
  EXPECT_EQ(federation.method->findings().scores.at("ncs"), before)
      << "scores stay as they were when clients were pruned";

  Federation whole = of_the_paper({{"prune", 0.0}});
  whole.play_until(120);
  EXPECT_EQ(whole.trainings, 1200);
  EXPECT_TRUE(whole.method->findings().flagged->empty());
}

TEST(ClipFL, FindsTheClientsThatAreWorse) {
  Federation federation = of_the_paper();
  federation.play_until(120);
  Ids odd;
  for (std::int64_t client = 1; client < 100; client += 2) {
    odd.push_back(client);
  }
  const Ids pruned = *federation.method->findings().flagged;
  const Detection detection = detect({pruned.begin(), pruned.end()}, {odd.begin(), odd.end()}, 100);
  EXPECT_GT(detection.precision.value(), 0.8);
}

// spec: label-noise C.7 #10
TEST(ClipFL, IdentificationAccuracyIsThePrecisionOfThePruned) {
  EXPECT_EQ(detect({1, 4, 9, 2}, {1, 4, 5, 7}, 10).precision, 0.5);
  EXPECT_EQ(detect({1, 4, 9, 2}, {1, 4, 5, 7}, 10).recall, 0.5);
}

// spec: label-noise C.5
TEST(ClipFL, CostsTheBaseMethodsMessagesAndAByteForThePruned) {
  Federation federation = scripted(0.5);
  federation.play_until(4);
  EXPECT_EQ(federation.fleet.traffic().bytes_down, 12 * (4 + 4));
  EXPECT_EQ(federation.fleet.traffic().bytes_up, 12 * (4 + 4));
  federation.play(4);
  EXPECT_EQ(federation.fleet.traffic().bytes_down, 12 * (4 + 4) + 3 * 1 + (4 + 4));
  EXPECT_EQ(federation.fleet.traffic().bytes_up, 12 * (4 + 4) + 3 * 0 + (4 + 4));
  EXPECT_EQ(federation.fleet.asked.front().task.get<std::uint8_t>("reason"), 1);
}

TEST(ClipFL, CountsAReplyThatIsNotFiniteAgainstItsClient) {
  Federation federation(
      {{"pre_rounds", 1}, {"keep", 2}, {"prune", 0.25}}, {5, 5, 5, 5},
      [](std::int64_t, std::int64_t client) { return 0.9 - 0.1 * static_cast<double>(client); },
      {.seed = 4, .rounds = 2, .fraction = 1.0, .validation = 1000});
  federation.models[0] = state_of({kNaN});
  federation.play(0);
  EXPECT_EQ(federation.notes["rejected"], Json{0});
  EXPECT_EQ(federation.notes["dropped"], 2);
  EXPECT_EQ(federation.total_ncs(), 2.0) << "as many as with a finite reply";
  EXPECT_EQ(federation.ncs(0), 1.0);
  EXPECT_EQ(federation.ncs(3), 1.0);
  EXPECT_EQ(values_of(federation.global), std::vector<float>{1.5F}) << "of clients 1 and 2";
  EXPECT_FALSE(federation.method->findings().scores.at("validation_accuracy").contains(0));
  federation.play(1);
  EXPECT_EQ(federation.method->findings().flagged, Ids{0});
}

TEST(ClipFL, LeavesClientsWithoutSamplesOutOfTheCount) {
  Federation federation(
      {{"pre_rounds", 1}, {"keep", 1}, {"prune", 0.5}}, {0, 5, 5, 0, 5, 5, 0},
      [](std::int64_t, std::int64_t client) { return 0.1 * static_cast<double>(client); },
      {.seed = 4, .rounds = 2, .fraction = 1.0, .validation = 1000});
  federation.play(0);
  federation.play(1);
  EXPECT_EQ(federation.method->findings().flagged, (Ids{1, 2})) << "half of four, not of seven";
  EXPECT_EQ(federation.asked("train"), (Ids{4, 5}));
}

TEST(ClipFL, AsksNobodyToLeaveWhenNobodyIsPruned) {
  Federation federation = scripted(0.1);  // of six: none
  federation.play_until(6);
  EXPECT_EQ(federation.method->findings().flagged, Ids{});
  EXPECT_TRUE(federation.asked("dismiss").empty());
  EXPECT_EQ(federation.asked("train").size(), 3U);
}

TEST(ClipFL, ResumesBetweenAnyTwoRounds) {
  Federation whole = scripted(0.5);
  whole.play_until(7);
  for (std::int64_t stop = 0; stop < 7; ++stop) {
    Federation first = scripted(0.5);
    first.play_until(stop);
    Archive archive;
    first.method->save(archive);
    archive = out_of_a_file(archive);
    archive.values = Json::parse(archive.values.dump());
    Federation second = scripted(0.5);
    second.global = first.global;
    second.method->load(archive);
    second.play_until(7, stop);
    EXPECT_EQ(hash(second.global), hash(whole.global)) << "after round " << stop;
    EXPECT_EQ(second.method->findings().scores, whole.method->findings().scores);
    EXPECT_EQ(second.method->findings().flagged, whole.method->findings().flagged);
  }
}

TEST(ClipFL, LoadTakesBackWhatWasPlayed) {
  Federation federation = scripted(0.5);
  Archive empty;
  federation.play_until(5);
  federation.method->load(empty);
  EXPECT_FALSE(federation.method->findings().flagged.has_value());
  EXPECT_EQ(federation.total_ncs(), 0.0);
}

TEST(ClipFL, KeepsTheStateOfItsBase) {
  const Json table{{"pre_rounds", 2},
                   {"base", {{"name", "fedadam"}, {"lr", 0.01}, {"tau", 0.001}}}};
  Federation whole = of_the_paper(table);
  whole.play_until(4);
  Federation first = of_the_paper(table);
  first.play_until(2);
  Archive archive;
  first.method->save(archive);
  Federation second = of_the_paper(table);
  second.global = first.global;
  second.method->load(archive);
  second.play_until(4, 2);
  EXPECT_EQ(hash(second.global), hash(whole.global));
}

TEST(ClipFL, RefusesAnImpossibleSetting) {
  const Setting good{.rounds = 120, .clients = 100, .validation = 5000};
  const auto refusal = [&](const Json& table, const Setting& setting) {
    return error_text([&] { clipfl(table)->check(setting); });
  };
  EXPECT_EQ(refusal(Json::object(), good), "no error");
  EXPECT_EQ(refusal({{"pre_rounds", 120}}, good), "no error");
  EXPECT_EQ(refusal(Json::object(), {.rounds = 120, .clients = 100}),
            "clipfl needs a validation set on the server | add a [validation] table, for example "
            "source = \"split\", share = 0.1");
  EXPECT_EQ(refusal({{"pre_rounds", 121}}, good),
            "method.pre_rounds = 121: expected at most the 120 rounds of the run | two thirds of "
            "the rounds is what the paper uses");
  EXPECT_EQ(refusal({{"prune", 1.0}}, good),
            "method.prune = 1: expected a share that leaves at least one of 100 clients | the "
            "paper sets it to the share of noisy clients");
  EXPECT_EQ(error_kind([&] { clipfl({{"prune", 1.0}})->check(good); }), ErrorKind::experiment);
  EXPECT_THAT(refusal({{"keep", 0}}, good), testing::HasSubstr("method.keep"));
  EXPECT_THAT(refusal({{"pre_rounds", 0}}, good), testing::HasSubstr("method.pre_rounds"));
  EXPECT_THAT(refusal({{"fuse", "some"}}, good), testing::HasSubstr("expected one of kept, all"));
  EXPECT_THAT(refusal({{"base", "clipfl"}}, good), testing::HasSubstr("method.base"));
}

TEST(ClipFL, RefusesABaseThatNeedsMoreModels) {
  const Setting setting{.rounds = 120, .clients = 100, .fraction = 0.1, .validation = 5000};
  const auto refusal = [&](const Json& base, const Json& changes) {
    Json table{{"base", base}};
    table.update(changes);
    return error_text([&] { clipfl(table)->check(setting); });
  };
  EXPECT_EQ(refusal("bulyan", {{"keep", 5}}),
            "method.keep = 5: expected at least the 7 models that base bulyan needs | raise "
            "method.keep or lower byzantine");
  EXPECT_EQ(refusal("bulyan", {{"keep", 7}, {"prune", 0.5}}),
            "method.prune = 0.5, which leaves 5 clients in a round: expected at least the 7 models "
            "that base bulyan needs | lower method.prune, raise federation.fraction or lower "
            "byzantine");
  EXPECT_EQ(refusal("bulyan", {{"keep", 7}, {"prune", 0.3}}), "no error");
  EXPECT_EQ(refusal("bulyan", {{"keep", 7}, {"pre_rounds", 120}}), "no error")
      << "nobody is pruned";
  EXPECT_EQ(refusal("bulyan", {{"keep", 5}, {"prune", 0.3}, {"fuse", "all"}}), "no error");
  EXPECT_EQ(refusal({{"name", "bulyan"}, {"byzantine", 0}}, {{"keep", 3}}), "no error");
  EXPECT_EQ(refusal({{"name", "bulyan"}, {"byzantine", 2}}, {{"keep", 11}}),
            "federation.fraction = 0.1 of 100 clients: expected at least the 11 models that bulyan "
            "needs | raise federation.fraction or lower byzantine")
      << "no round is large enough, whatever is kept";
  const Json half{{"name", "trimmed_mean"}, {"trim", 0.5}};
  EXPECT_EQ(error_text([&] {
              clipfl({{"base", half}, {"keep", 4}})
                  ->check({.rounds = 120, .clients = 9, .fraction = 1.0, .validation = 50});
            }),
            "method.keep = 4: base trimmed_mean drops 2 of 4 models at each end, which leaves none "
            "| raise method.keep or lower trim");
  EXPECT_EQ(error_text([&] {
              clipfl({{"base", half}, {"keep", 5}})
                  ->check({.rounds = 120, .clients = 9, .fraction = 1.0, .validation = 50});
            }),
            "no error");
  EXPECT_EQ(error_kind([&] {
              clipfl({{"base", "bulyan"}})->check(setting);
            }),
            ErrorKind::experiment);
}

TEST(ClipFL, HasThePapersDefaults) {
  const MethodInfo info = clipfl_info();
  EXPECT_EQ(info.name, "clipfl");
  EXPECT_EQ(info.group, "system");
  const std::unique_ptr<Method> method = info.make();
  Params params;
  method->declare(params);
  EXPECT_EQ(params.values(), (Json{{"base", {{"name", "fedavg"}, {"weighting", "samples"}}},
                                   {"pre_rounds", 80},
                                   {"keep", 5},
                                   {"prune", 0.5},
                                   {"fuse", "kept"},
                                   {"tie", "ratio"}}));
}

// A slow line is no noise.
TEST(ClipFLAbsences, AnAbsenceIsHeldAgainstNobody) {
  Federation federation({{"pre_rounds", 3}, {"keep", 2}, {"prune", 0.5}}, {5, 5, 5, 5},
                        [](std::int64_t, std::int64_t) { return 0.5; },
                        {.seed = 4, .rounds = 3, .fraction = 1.0, .validation = 100});
  federation.fleet.away = [](std::int64_t client, const Message&) { return client >= 2; };
  federation.play_until(3);
  EXPECT_EQ(federation.total_ncs(), 0.0);
  EXPECT_EQ(values_of(federation.global), std::vector<float>{0.5F});
  federation.fleet.away = [](std::int64_t, const Message&) { return true; };
  federation.play(2);
  EXPECT_EQ(federation.total_ncs(), 0.0);
  EXPECT_TRUE(federation.notes.contains("standstill"));
}

}  // namespace winnow::clipfl::clipfl_test
