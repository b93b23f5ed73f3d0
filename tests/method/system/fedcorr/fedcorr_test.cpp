#include "winnow/method/system/fedcorr/fedcorr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "testing/support.h"
#include "winnow/base/random.h"
#include "winnow/federation/selection.h"

namespace winnow::fedcorr_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::uint64_t kSeed = 4;

std::unique_ptr<FedCorr> fedcorr_of(const Json& table) {
  auto method = std::make_unique<FedCorr>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

// What the scripted clients report, by client. A client's model is its id + 1.
struct Script {
  std::vector<std::int64_t> sizes;
  std::vector<std::vector<double>> lids;  // by iteration, then client
  std::vector<double> estimates;
  std::set<std::int64_t> broken = {};  // clients whose models are not finite
};

// The server side alone.
struct Federation {
  Federation(const Json& table, Script reported, double fraction = 0.5)
      : method(fedcorr_of(table)),
        script(std::move(reported)),
        setting{.seed = kSeed,
                .rounds = 1,
                .clients = static_cast<std::int64_t>(script.sizes.size()),
                .fraction = fraction,
                .classes = 3},
        turns(fedcorr::Schedule({.stage1_fraction = table.value("stage1_fraction", 0.0)},
                                setting.clients)
                  .turns()),
        fleet(script.sizes,
              [this](std::int64_t client, const Message& task) { return answer(client, task); }),
        global(state_of({0, 0}, {0})) {}

  Message answer(std::int64_t client, const Message& task) const {
    EXPECT_NO_THROW(check(task, method->exchanges({})));
    Message reply = make_answer(client, task);
    EXPECT_NO_THROW(check(reply, method->exchanges({})));
    return reply;
  }
  Message make_answer(std::int64_t client, const Message& task) const {
    const auto place = static_cast<std::size_t>(client);
    const auto value = static_cast<float>(client + 1);
    const State model =
        state_of({value, script.broken.contains(client) ? kNaN : value}, {10 * value});
    const auto samples = static_cast<std::uint32_t>(script.sizes[place]);
    if (task.kind() == "train1") {
      const auto iteration = static_cast<std::size_t>(task.get<std::uint32_t>("round") / turns);
      return Message("train1_done")
          .set("model", model)
          .set("samples", samples)
          .set("lid", script.lids.at(iteration).at(place));
    }
    if (task.kind() == "correct1") {
      return Message("correct1_done")
          .set("muhat", script.estimates.at(place))
          .set("relabelled", static_cast<std::uint32_t>(10 + client));
    }
    if (task.kind() == "set_clean") {
      return Message("set_clean_done");
    }
    if (task.kind() == "correct_all") {
      return Message("correct_all_done").set("relabelled", static_cast<std::uint32_t>(client));
    }
    return Message(task.kind() == "finetune" ? "finetune_done" : "train_done")
        .set("model", model)
        .set("samples", samples);
  }
  void play() {
    notes = Json::object();
    fleet.asked.clear();
    fleet.replies.clear();
    Server server{setting, fleet, global, notes};
    method->play(round, server);
    ++round;
  }
  void play(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      play();
    }
  }
  // Who was sent a task of that kind in the last round.
  std::vector<std::int64_t> asked(const std::string& kind) const {
    std::vector<std::int64_t> clients;
    for (const Order& order : fleet.asked) {
      if (order.task.kind() == kind) {
        clients.push_back(order.client);
      }
    }
    return clients;
  }

  std::unique_ptr<FedCorr> method;
  Script script;
  Setting setting;
  std::int64_t turns;
  FakeFleet fleet;
  State global;
  Json notes = Json::object();
  std::int64_t round = 0;
};

// spec: label-noise A.7 #7, with the estimates of #9 for the flagged
Script worked_script() {
  return {.sizes = {30, 30, 30, 30, 30, 30},
          .lids = {{4.0, 4.2, 5.9, 4.1, 6.3, 4.3}, {3.0, 3.1, 4.4, 4.2, 4.6, 3.2}},
          .estimates = {0, 0, 0.08, 0, 0.35, 0}};
}
const Json kTwoIterations{{"iterations", 2}, {"finetune_rounds", 2}, {"usual_rounds", 2}};

TEST(FedCorr, HasAScheduleOfItsOwn) {
  const Setting setting{.seed = 1, .rounds = 7, .clients = 100, .fraction = 0.1, .classes = 10};
  EXPECT_EQ(fedcorr_of(Json::object())->rounds(setting), 1450);
  EXPECT_EQ(fedcorr_of({{"stage1_fraction", 0.1}})->rounds(setting), 5 * 10 + 950);
  EXPECT_EQ(fedcorr_of({{"finetune_rounds", 0}})->rounds(setting), 950);
  EXPECT_EQ(fedcorr_of({{"usual_rounds", 0}})->rounds(setting), 1000);
  EXPECT_EQ(fedcorr_of({{"stage1_fraction", 0.1}})->schedule(setting),
            "iterations 5 x 10 turns + finetune_rounds 500 + usual_rounds 450");
}

// spec: label-noise A.7 #12
TEST(FedCorr, HandsTheModelFromClientToClient) {
  Federation federation(kTwoIterations, worked_script());
  for (std::int64_t iteration = 0; iteration < 2; ++iteration) {
    const std::vector<std::int64_t> order =
        Stream(kSeed, "fedcorr order", iteration).permutation(6);
    for (const std::int64_t client : order) {
      const State sent = federation.global;
      federation.play();
      ASSERT_THAT(federation.asked("train1"), ElementsAre(client));
      const Message& task = federation.fleet.asked.front().task;
      EXPECT_EQ(task.get<State>("model").flat.data_ptr(), sent.flat.data_ptr());
      EXPECT_EQ(task.get<std::uint32_t>("round"), federation.round - 1);
      EXPECT_EQ(hash(federation.global),
                hash(federation.fleet.replies.front().get<State>("model")));
      EXPECT_EQ(federation.notes["clients"], Json{client});
      EXPECT_EQ(federation.notes["stage"],
                Json(iteration == 0 ? "1 iteration 1" : "1 iteration 2"));
    }
  }
}

TEST(FedCorr, AveragesLargerChunksBySamples) {
  Script script = worked_script();
  script.sizes = {10, 20, 30, 40, 50, 60};
  Federation federation({{"stage1_fraction", 0.5}}, script);
  const std::vector<std::int64_t> order = Stream(kSeed, "fedcorr order", 0).permutation(6);
  federation.play();
  EXPECT_THAT(federation.asked("train1"), UnorderedElementsAre(order[0], order[1], order[2]));
  double sum = 0.0;
  double weight = 0.0;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto samples = static_cast<double>(10 * (order[i] + 1));
    sum += samples * static_cast<double>(order[i] + 1);
    weight += samples;
  }
  EXPECT_NEAR(values_of(federation.global)[0], sum / weight, 1e-6);
  EXPECT_NEAR(values_of(federation.global)[2], 10 * sum / weight, 1e-5) << "buffers too";
}

// spec: label-noise A.4 #15: a client drawn twice weighs double, one that is missed has LID 0.
TEST(FedCorr, WithTheCodesDrawWhoIsMissedLooksClean) {
  const Json table{{"iterations", 1}, {"stage1_fraction", 0.5}, {"stage1_draw", "code"}};
  const fedcorr::Schedule schedule(
      {.iterations = 1, .stage1_fraction = 0.5, .stage1_draw = fedcorr::Draw::code}, 6);
  Federation federation(table, worked_script());
  std::set<std::int64_t> seen;
  bool twice = false;
  for (std::int64_t turn = 0; turn < schedule.turns(); ++turn) {
    const std::vector<std::int64_t> drawn = schedule.turn_clients(schedule.step(turn), kSeed);
    federation.play();
    double sum = 0.0;
    for (const std::int64_t client : drawn) {
      sum += static_cast<double>(client + 1);
    }
    EXPECT_NEAR(values_of(federation.global)[0], sum / static_cast<double>(drawn.size()), 1e-6);
    const std::set<std::int64_t> own(drawn.begin(), drawn.end());
    EXPECT_EQ(federation.asked("train1").size(), own.size());
    twice = twice || own.size() < drawn.size();
    seen.insert(own.begin(), own.end());
  }
  ASSERT_TRUE(twice && seen.size() < 6U) << "the seed would show nothing";
  const auto lids = federation.method->findings().scores.at("lid");
  EXPECT_EQ(lids.size(), 6U);
  for (const auto& [client, lid] : lids) {
    EXPECT_EQ(lid, seen.contains(client)
                       ? federation.script.lids[0][static_cast<std::size_t>(client)]
                       : 0.0);
  }
}

// spec: label-noise A.7 #7
TEST(FedCorr, FlagsByTheCumulativeLid) {
  Federation federation(kTwoIterations, worked_script());
  EXPECT_FALSE(federation.method->findings().flagged);
  federation.play(5);
  EXPECT_FALSE(federation.method->findings().flagged) << "the iteration is not finished";
  EXPECT_FALSE(federation.notes.contains("flagged"));
  federation.play();
  EXPECT_THAT(federation.method->findings().flagged.value(), ElementsAre(2, 4));
  EXPECT_EQ(federation.method->findings().scores.at("lid").at(3), 4.1);
  federation.play(6);
  const Findings findings = federation.method->findings();
  EXPECT_THAT(findings.flagged.value(), ElementsAre(2, 4)) << "the second alone says 2, 3, 4";
  EXPECT_DOUBLE_EQ(findings.scores.at("lid").at(3), 8.3);
  EXPECT_EQ(findings.noise_levels,
            (std::map<std::int64_t, double>{{0, 0}, {1, 0}, {2, 0.08}, {3, 0}, {4, 0.35}, {5, 0}}));
}

TEST(FedCorr, CorrectsTheFlaggedAndTellsTheOthersTheyAreClean) {
  Federation federation(kTwoIterations, worked_script());
  federation.play(6);
  EXPECT_THAT(federation.asked("correct1"), ElementsAre(2, 4));
  EXPECT_THAT(federation.asked("set_clean"), ElementsAre(0, 1, 3, 5));
  for (const Order& order : federation.fleet.asked) {
    if (order.task.kind() == "correct1") {
      EXPECT_EQ(hash(order.task.get<State>("model")), hash(federation.global))
          << "the model at the end of the iteration";
    }
  }
  EXPECT_EQ(federation.notes["flagged"], Json(2));
  EXPECT_EQ(federation.notes["relabelled"], Json(12 + 14));
  EXPECT_NEAR(federation.notes["estimated_noise"].get<double>(), 0.215, 1e-12);
  EXPECT_EQ(federation.notes["flagged_clients"], (Json{2, 4}));
  EXPECT_EQ(federation.notes["muhat"], (Json{0.08, 0.35}));
  EXPECT_FALSE(federation.notes.contains("few_neighbours"));
}

// spec: label-noise A.5
TEST(FedCorr, MessagesHaveTheDocumentedSizes) {
  Federation federation(kTwoIterations, worked_script());
  const std::int64_t model = 4 * 3;
  std::map<std::string, std::int64_t> sizes;
  for (std::int64_t round = 0; round < 16; ++round) {
    federation.play();
    for (std::size_t i = 0; i < federation.fleet.asked.size(); ++i) {
      const Message& task = federation.fleet.asked[i].task;
      const Message& reply = federation.fleet.replies[i];
      EXPECT_TRUE(sizes.try_emplace(task.kind(), task.bytes()).first->second == task.bytes());
      EXPECT_TRUE(sizes.try_emplace(reply.kind(), reply.bytes()).first->second == reply.bytes());
    }
  }
  EXPECT_EQ(sizes, (std::map<std::string, std::int64_t>{{"train1", 4 + model},
                                                        {"train1_done", model + 4 + 8},
                                                        {"correct1", 4 + model},
                                                        {"correct1_done", 8 + 4},
                                                        {"set_clean", 4},
                                                        {"set_clean_done", 0},
                                                        {"finetune", 4 + model},
                                                        {"finetune_done", model + 4},
                                                        {"correct_all", model},
                                                        {"correct_all_done", 4},
                                                        {"train", 4 + model},
                                                        {"train_done", model + 4}}));
  EXPECT_EQ(federation.fleet.traffic().bytes_down,
            12 * (4 + model) + 2 * (2 * (4 + model) + 4 * 4) + 2 * 3 * (4 + model) + 2 * model +
                2 * 3 * (4 + model));
}

// spec: label-noise A.3 stages 2 and 3
TEST(FedCorr, FinetunesOnClientsWithLittleNoiseAndThenTrainsEverybody) {
  Federation federation(kTwoIterations, worked_script());
  federation.play(12);
  const std::vector<std::int64_t> clean{0, 1, 2, 3, 5};
  federation.play();
  EXPECT_EQ(federation.notes["stage"], Json("2"));
  EXPECT_EQ(federation.asked("finetune"), select_uniform(clean, 3, kSeed, 12));
  EXPECT_EQ(federation.fleet.asked.size(), 3U);
  const std::vector<std::int64_t> chosen = federation.asked("finetune");
  EXPECT_NEAR(values_of(federation.global)[0],
              static_cast<double>(chosen[0] + chosen[1] + chosen[2]) / 3 + 1, 1e-6);
  federation.play();
  EXPECT_EQ(federation.asked("finetune"), select_uniform(clean, 3, kSeed, 13));
  EXPECT_THAT(federation.asked("correct_all"), ElementsAre(2, 4));
  EXPECT_EQ(federation.notes["relabelled"], Json(2 + 4));
  for (const Order& order : federation.fleet.asked) {
    if (order.task.kind() == "correct_all") {
      EXPECT_EQ(hash(order.task.get<State>("model")), hash(federation.global));
    }
  }
  const std::vector<std::int64_t> all{0, 1, 2, 3, 4, 5};
  for (std::int64_t round = 14; round < 16; ++round) {
    federation.play();
    EXPECT_EQ(federation.notes["stage"], Json("3"));
    EXPECT_EQ(federation.asked("train"), select_uniform(all, 3, kSeed, round));
    EXPECT_EQ(federation.fleet.asked.size(), 3U);
  }
}

// spec: label-noise A.4 #10
TEST(FedCorr, InPaperModeCorrectsClientsAboveKappa) {
  Json table = kTwoIterations;
  table["final_set"] = "paper";
  Federation federation(table, worked_script());
  federation.play(14);
  EXPECT_THAT(federation.asked("correct_all"), ElementsAre(4));
}

TEST(FedCorr, WithoutCorrectionAsksNobodyToCorrectAll) {
  Json table = kTwoIterations;
  table["correction"] = false;
  Federation federation(table, worked_script());
  federation.play(6);
  EXPECT_THAT(federation.asked("correct1"), ElementsAre(2, 4)) << "estimates are still needed";
  federation.play(8);
  EXPECT_THAT(federation.asked("correct_all"), IsEmpty());
  EXPECT_EQ(federation.asked("finetune").size(), 3U);
}

TEST(FedCorr, WithoutFinetuningSkipsItsCorrection) {
  Json table = kTwoIterations;
  table["finetune_rounds"] = 0;
  Federation federation(table, worked_script());
  federation.play(12);
  EXPECT_THAT(federation.asked("correct_all"), IsEmpty());
  federation.play();
  EXPECT_EQ(federation.notes["stage"], Json("3"));
  EXPECT_THAT(federation.asked("correct_all"), IsEmpty());
}

// The number of participants is that of the federation, as far as there are clean clients.
TEST(FedCorr, FinetunesOnAllCleanClientsWhenThereAreFewerThanWanted) {
  Federation federation(kTwoIterations, worked_script(), 1.0);
  federation.play(13);
  EXPECT_THAT(federation.asked("finetune"), ElementsAre(0, 1, 2, 3, 5));
}

// spec: label-noise A.4 #18. A mixture flags some but hardly ever all, so the state is written by
// hand.
TEST(FedCorr, FinetunesOnTheLeastNoisyWhenNobodyIsClean) {
  Federation federation(kTwoIterations, worked_script(), 0.25);
  Archive archive;
  archive.values["estimates"] =
      Json{{"0", 0.4}, {"1", 0.3}, {"2", 0.9}, {"3", 0.2}, {"4", 0.3}, {"5", 0.8}};
  federation.method->load(archive);
  federation.round = 12;
  std::set<std::int64_t> chosen;
  for (int round = 0; round < 2; ++round) {
    federation.play();
    ASSERT_EQ(federation.asked("finetune").size(), 1U);
    chosen.insert(federation.asked("finetune").front());
  }
  EXPECT_TRUE(std::ranges::includes(std::set<std::int64_t>{1, 3}, chosen)) << "ceil(1.5) least";
}

TEST(FedCorr, RejectsUploadsThatAreNotFinite) {
  Script script = worked_script();
  script.broken = {1};
  script.lids[0][3] = std::numeric_limits<double>::quiet_NaN();
  Federation federation(kTwoIterations, script);
  for (int turn = 0; turn < 6; ++turn) {
    const std::string before = hash(federation.global);
    federation.play();
    const std::int64_t client = federation.asked("train1").front();
    if (client == 1 || client == 3) {
      EXPECT_EQ(federation.notes["rejected"], Json{client});
      EXPECT_EQ(hash(federation.global), before) << "the model stays as it is";
    } else {
      EXPECT_FALSE(federation.notes.contains("rejected"));
      EXPECT_NE(hash(federation.global), before);
    }
  }
  const Findings findings = federation.method->findings();
  EXPECT_EQ(findings.scores.at("lid"),
            (std::map<std::int64_t, double>{{0, 4.0}, {2, 5.9}, {4, 6.3}, {5, 4.3}}));
  EXPECT_EQ(findings.noise_levels.at(1), 0.0) << "without a LID it counts as clean";
  // spec: label-noise D: client 3 answers in the second iteration, so means are compared.
  federation.play(6);
  EXPECT_EQ(federation.method->findings().scores.at("lid").at(3), 4.2);
  EXPECT_DOUBLE_EQ(federation.method->findings().scores.at("lid").at(0), 3.5);
}

TEST(FedCorr, OneGoodUploadOfAChunkReplacesTheModel) {
  Script script = worked_script();
  script.broken = {0, 1, 2, 3, 4};
  Federation federation({{"stage1_fraction", 1.0}}, script);
  federation.play();
  EXPECT_EQ(values_of(federation.global), (std::vector<float>{6, 6, 60}));
  EXPECT_EQ(federation.notes["rejected"], (Json{0, 1, 2, 3, 4}));
}

TEST(FedCorr, GivesUpWhenAWholeIterationIsNotFinite) {
  Script script = worked_script();
  script.broken = {0, 1, 2, 3, 4, 5};
  Federation federation(kTwoIterations, script);
  federation.play(5);
  EXPECT_EQ(error_text([&] { federation.play(); }),
            "round 6: every reply of iteration 1 held values that are not finite | the training "
            "diverged: lower train.lr");
  EXPECT_EQ(error_kind([&] { federation.play(); }), ErrorKind::run);
}

TEST(FedCorr, AnImpossibleEstimateIsNone) {
  for (const double estimate : {1.5, -0.1, std::numeric_limits<double>::quiet_NaN()}) {
    Script script = worked_script();
    script.estimates[4] = estimate;
    Federation federation(kTwoIterations, script);
    federation.play(6);
    EXPECT_EQ(federation.notes["rejected"], Json::array({4}));
    EXPECT_FALSE(federation.method->findings().noise_levels.contains(4));
  }
}

TEST(FedCorr, LeavesOutClientsWithoutSamples) {
  Script script = worked_script();
  script.sizes[0] = 0;
  script.sizes[5] = 0;
  Federation federation(kTwoIterations, script, 1.0);
  const std::vector<std::int64_t> order = Stream(kSeed, "fedcorr order", 0).permutation(6);
  for (const std::int64_t client : order) {
    const std::string before = hash(federation.global);
    federation.play();
    if (client == 0 || client == 5) {
      EXPECT_THAT(federation.asked("train1"), IsEmpty());
      EXPECT_EQ(hash(federation.global), before);
      EXPECT_EQ(federation.notes["clients"], Json::array());
    } else {
      EXPECT_THAT(federation.asked("train1"), ElementsAre(client));
    }
  }
  EXPECT_EQ(federation.method->findings().noise_levels.size(), 4U);
  for (std::int64_t round = 6; round < 16; ++round) {
    federation.play();
    for (const Order& order_sent : federation.fleet.asked) {
      EXPECT_NE(order_sent.client, 0);
      EXPECT_NE(order_sent.client, 5);
    }
  }
}

TEST(FedCorr, RefusesAFederationWithoutSamples) {
  Federation federation(kTwoIterations, {.sizes = {0, 0}, .lids = {}, .estimates = {}});
  EXPECT_EQ(error_text([&] { federation.play(); }), "no client holds a sample");
}

// spec: label-noise A.4 #16
TEST(FedCorr, TakesAClientOfOneSampleAsClean) {
  Script script = worked_script();
  script.sizes[4] = 1;
  script.sizes[1] = 20;
  Federation federation(kTwoIterations, script);
  federation.play(6);
  const Findings findings = federation.method->findings();
  EXPECT_FALSE(findings.scores.at("lid").contains(4));
  EXPECT_THAT(findings.flagged.value(), ElementsAre(2));
  EXPECT_EQ(findings.noise_levels.at(4), 0.0);
  EXPECT_EQ(federation.notes["few_neighbours"], (Json{1, 4})) << "fewer than 20 others";
}

TEST(FedCorr, TrainsWithTheChosenBaseInStageThree) {
  const auto method = fedcorr_of({{"base", {{"name", "fedprox"}, {"mu", 0.5}}}});
  Params params;
  method->declare(params);
  EXPECT_EQ(params.find("base")->value(),
            (Json{{"name", "fedprox"}, {"mu", 0.5}, {"weighting", "samples"}}));
  EXPECT_THAT(error_text([] { fedcorr_of({{"base", "fedporx"}}); }), HasSubstr("method.base"));
}

TEST(FedCorr, CountsTheRoundsOfAStageThreeWithItsOwnLearningRate) {
  Json table = kTwoIterations;
  table["usual_lr"] = 0.1;
  table["usual_lr_decay"] = 0.998;
  Federation federation(table, worked_script());
  federation.play(14);
  EXPECT_FALSE(federation.fleet.asked.front().task.has("usual_round")) << "stage 2";
  for (std::uint32_t round = 0; round < 2; ++round) {
    federation.play();
    for (const Order& order : federation.fleet.asked) {
      EXPECT_EQ(order.task.get<std::uint32_t>("usual_round"), round);
      EXPECT_EQ(order.task.get<std::uint32_t>("round"), 14U + round);
    }
  }
  Federation plain(kTwoIterations, worked_script());
  plain.play(15);
  EXPECT_FALSE(plain.fleet.asked.front().task.has("usual_round"));
  EXPECT_EQ(error_text([] {
              fedcorr_of({{"usual_lr_decay", 0.9}})
                  ->check({.rounds = 60, .clients = 100, .fraction = 0.1});
            }),
            "method.usual_lr_decay = 0.9: it needs method.usual_lr | without it, stage 3 uses "
            "train.lr and train.lr_decay");
}

// A run that is saved and resumed after every round goes on as if nothing had happened.
TEST(FedCorr, ContinuesFromASavedState) {
  Script script = worked_script();
  script.lids[0][3] = std::numeric_limits<double>::quiet_NaN();
  Federation straight(kTwoIterations, script);
  Federation resumed(kTwoIterations, script);
  for (std::int64_t round = 0; round < 16; ++round) {
    Archive archive;
    resumed.method->save(archive);
    // Values pass through text, as in a checkpoint.
    archive = out_of_a_file(archive);
    archive.values = Json::parse(archive.values.dump());
    resumed.method = fedcorr_of(kTwoIterations);
    resumed.method->load(archive);
    straight.play();
    resumed.play();
    EXPECT_EQ(hash(straight.global), hash(resumed.global)) << "round " << round;
    EXPECT_EQ(straight.notes, resumed.notes);
    const Findings expected = straight.method->findings();
    const Findings found = resumed.method->findings();
    EXPECT_EQ(expected.flagged, found.flagged);
    EXPECT_EQ(expected.noise_levels, found.noise_levels);
    EXPECT_EQ(expected.scores, found.scores);
    Archive one;
    Archive other;
    straight.method->save(one);
    resumed.method->save(other);
    EXPECT_EQ(one.values, other.values);
  }
}

TEST(FedCorr, LoadForgetsWhatIsNotInTheArchive) {
  Federation federation(kTwoIterations, worked_script());
  Archive empty;
  federation.method->save(empty);
  federation.play(8);
  EXPECT_TRUE(federation.method->findings().flagged);
  federation.method->load(empty);
  Archive after;
  federation.method->save(after);
  EXPECT_EQ(after.values, empty.values);
  EXPECT_FALSE(federation.method->findings().flagged);
  federation.method->load({});
  EXPECT_FALSE(federation.method->findings().flagged);
}

TEST(FedCorr, ChecksItsBaseAgainstItsOwnRounds) {
  EXPECT_NO_THROW(
      fedcorr_of({{"base", "selfie"}})->check({.rounds = 60, .clients = 100, .fraction = 0.1}));
  const Json few{
      {"base", "selfie"}, {"iterations", 1}, {"finetune_rounds", 2}, {"usual_rounds", 3}};
  EXPECT_EQ(
      error_text([&] { fedcorr_of(few)->check({.rounds = 999, .clients = 4, .fraction = 0.5}); }),
      "method.warmup = 100: expected fewer than the 9 rounds of the run | a run that ends "
      "with its warm-up trusts all labels");
}

TEST(FedCorr, RefusesABaseThatNeedsMoreModelsThanARoundHas) {
  const auto method = fedcorr_of({{"base", "bulyan"}});
  EXPECT_EQ(error_text([&] { method->check({.rounds = 60, .clients = 50, .fraction = 0.1}); }),
            "federation.fraction = 0.1 of 50 clients: expected at least the 7 models that bulyan "
            "needs | raise federation.fraction or lower byzantine");
  EXPECT_NO_THROW(method->check({.rounds = 60, .clients = 70, .fraction = 0.1}));
}

TEST(FedCorr, IsKnownByName) {
  const MethodInfo info = fedcorr_info();
  EXPECT_EQ(info.name, "fedcorr");
  EXPECT_EQ(info.group, "system");
  EXPECT_NE(info.make(), nullptr);
}

// The figures 3 and 6 of the paper.
TEST(FedCorr, KeepsTheLidsOfEveryIteration) {
  Federation federation(kTwoIterations, worked_script());
  federation.play(5);
  EXPECT_THAT(federation.method->details().series, IsEmpty());
  federation.play(7);
  Details details = federation.method->details();
  ASSERT_EQ(details.series.at("lid").size(), 2U);
  EXPECT_EQ(details.series.at("lid")[0].at(3), 4.1);
  EXPECT_EQ(details.series.at("lid")[1].at(3), 4.2);
  EXPECT_EQ(details.series.at("lid_cumulative")[0], details.series.at("lid")[0]);
  EXPECT_EQ(details.series.at("lid_cumulative")[1], federation.method->findings().scores.at("lid"));
  Archive archive;
  federation.method->save(archive);
  const auto restored = fedcorr_of(kTwoIterations);
  restored->load(archive);
  EXPECT_EQ(restored->details().series, details.series);
  archive = out_of_a_file(archive);
  restored->load(archive);
  EXPECT_EQ(restored->details().series, details.series);
  // Older versions had a list of the iterations.
  Archive older = archive;
  older.values["lids"] = Json::array({archive.values["lids"]["0"], archive.values["lids"]["1"]});
  restored->load(older);
  EXPECT_EQ(restored->details().series, details.series);
  archive.values["lids"]["1"]["7x"] = 1.0;
  EXPECT_THAT(error_text([&] { restored->load(archive); }),
              HasSubstr("7x: expected the number of a client that holds samples"));
}

TEST(FedCorr, LabelsAreKeptAtTheStartAndAfterTheStagesThatChangeThem) {
  const Setting setting{.seed = 1, .rounds = 1, .clients = 6, .fraction = 0.5, .classes = 3};
  const auto kept = [&](const Json& table) {
    const auto method = fedcorr_of(table);
    std::vector<std::string> names;
    for (std::int64_t round = -1; round < method->rounds(setting); ++round) {
      if (const std::string name = method->keeps_labels_as(round, setting); !name.empty()) {
        names.push_back(name + " " + std::to_string(round));
      }
    }
    return names;
  };
  EXPECT_THAT(kept(kTwoIterations), ElementsAre("start -1", "stage 1 11", "stage 2 13"));
  Json without = kTwoIterations;
  without["finetune_rounds"] = 0;
  EXPECT_THAT(kept(without), ElementsAre("start -1", "stage 1 11"));
}

// One client a turn is the default: whoever's turn it is may be away.
TEST(FedCorrAbsences, ATurnThatNobodyAnswersLeavesTheModelAndGivesNoLid) {
  Federation federation(kTwoIterations, worked_script());
  federation.fleet.away = [](std::int64_t, const Message& task) { return task.kind() == "train1"; };
  const std::string before = hash(federation.global);
  federation.play(6);
  EXPECT_EQ(hash(federation.global), before);
  EXPECT_TRUE(federation.method->findings().scores.at("lid").empty());
  EXPECT_EQ(federation.notes["flagged"], 0) << "nobody is known to be noisy";
}

TEST(FedCorrAbsences, AFlaggedClientThatIsAwayHasNoEstimate) {
  Federation plain(kTwoIterations, worked_script());
  plain.play(6);
  const Json flagged = plain.notes["flagged_clients"];
  ASSERT_GE(flagged.size(), 1U);
  const auto away = flagged[0].get<std::int64_t>();
  Federation federation(kTwoIterations, worked_script());
  federation.fleet.away = [away](std::int64_t client, const Message& task) {
    return client == away && task.kind() == "correct1";
  };
  federation.play(6);
  EXPECT_EQ(federation.notes["flagged_clients"], flagged);
  EXPECT_TRUE(federation.notes["muhat"][0].is_null());
  EXPECT_FALSE(federation.method->findings().noise_levels.contains(away)) << "it is not clean";
  Archive archive;
  federation.method->save(archive);
  const auto loaded = fedcorr_of(kTwoIterations);
  EXPECT_NO_THROW(loaded->load(archive));
  EXPECT_EQ(loaded->findings().noise_levels, federation.method->findings().noise_levels);
}

}  // namespace winnow::fedcorr_test
