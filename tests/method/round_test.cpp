#include "winnow/method/round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include "method/base_rounds.h"
#include "testing/support.h"
#include "winnow/federation/selection.h"

namespace winnow::round_test {

using testing::ElementsAre;
using Ids = std::vector<std::int64_t>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Clients 0 to 5 of 10, 0, 30, 20, 20 and 40 samples. Client 3 sends a model that is not finite.
struct Federation {
  Federation()
      : fleet({10, 0, 30, 20, 20, 40},
              [this](std::int64_t client, const Message& task) {
                return Message(task.kind() + "_done")
                    .set("model", state_of({client == 3 ? kNaN : static_cast<float>(client)}))
                    .set("samples", static_cast<std::uint32_t>(fleet.samples(client)));
              }),
        server{setting, fleet, global, notes} {}

  FakeFleet fleet;
  Setting setting{.seed = 9, .rounds = 5, .clients = 6, .fraction = 0.5};
  State global = state_of({7});
  Json notes = Json::object();
  Server server;
};

void ask(Round& round, Ids& taken) {
  round.ask(
      round.chosen, [&](std::int64_t) { return round.task("train"); },
      BaseMethod().exchanges(round.setting),
      [&](std::int64_t client, const Message&) { taken.push_back(client); });
}

TEST(Round, KnowsItsNumberAndWhomItMayChoose) {
  Federation federation;
  Round round(3, federation.server);
  EXPECT_EQ(round.number, 3);
  EXPECT_EQ(round.stamp(), 3U);
  EXPECT_THAT(round.pool, ElementsAre(0, 2, 3, 4, 5)) << "who holds samples";
  EXPECT_EQ(&round.global, &federation.global);
  EXPECT_EQ(&round.notes, &federation.notes);
  const Round smaller(3, federation.server, std::vector<std::int64_t>{2, 4});
  EXPECT_THAT(smaller.pool, ElementsAre(2, 4));

  FakeFleet nobody({0, 0}, nullptr);
  Server server{federation.setting, nobody, federation.global, federation.notes};
  EXPECT_EQ(error_text([&] { Round(0, server); }), "no client holds a sample");
}

TEST(Round, DrawsAsTheExperimentSays) {
  Federation federation;
  const Round round(3, federation.server);
  EXPECT_EQ(round.share(), 2) << "half of five";
  EXPECT_EQ(round.draw(), select_uniform(Ids{0, 2, 3, 4, 5}, 2, 9, 3));
  EXPECT_EQ(round.draw(4), select_uniform(Ids{0, 2, 3, 4, 5}, 4, 9, 3));
  EXPECT_EQ(round.draw(99), round.pool.ids());
  EXPECT_NE(Round(4, federation.server).draw(), round.draw());
}

TEST(Round, MakesATaskOfItsNumberAndTheGlobalModel) {
  Federation federation;
  const Message task = Round(3, federation.server).task("train");
  EXPECT_EQ(task.kind(), "train");
  EXPECT_EQ(round_of(task), 3);
  EXPECT_EQ(values_of(task.get<State>("model")), std::vector<float>{7});
}

TEST(Round, HandsOverUsableRepliesInTheFleetsOrder) {
  Federation federation;
  federation.fleet.away = [](std::int64_t client, const Message&) { return client == 4; };
  Round round(3, federation.server);
  round.chosen = {0, 2, 3, 4, 5};
  Ids taken;
  ask(round, taken);
  EXPECT_THAT(taken, ElementsAre(5, 2, 0));
  EXPECT_THAT(round.rejected, ElementsAre(3));
  EXPECT_THAT(round.absent, ElementsAre(Absence{4, AbsenceReason::silent}));
  EXPECT_THAT(round.answered(), ElementsAre(0, 2, 3, 5));
  EXPECT_TRUE(round.note_replies());
  EXPECT_EQ(federation.notes, (Json{{"clients", {0, 2, 3, 4, 5}}, {"rejected", {3}}}));
}

TEST(Round, AddsUpWhatCameOfSeveralAsks) {
  Federation federation;
  federation.fleet.away = [](std::int64_t client, const Message&) { return client != 5; };
  Round round(0, federation.server);
  round.chosen = {4, 2, 5};
  for (const std::int64_t client : Ids{4, 2, 5}) {
    round.ask(
        {client}, [&](std::int64_t) { return round.task("train"); },
        BaseMethod().exchanges({}).front().answers, [&](std::int64_t, const Message&) {});
  }
  EXPECT_THAT(round.absent,
              ElementsAre(Absence{2, AbsenceReason::silent}, Absence{4, AbsenceReason::silent}));
  EXPECT_THAT(round.answered(), ElementsAre(5));
  round.reject(5);
  EXPECT_FALSE(round.note_replies()) << "two absent, one rejected afterwards";
  EXPECT_EQ(federation.notes["rejected"], Json{5});
}

TEST(Round, OfWhichNobodyIsLeftStandsStillWhereSomeWereAbsent) {
  Federation federation;
  federation.fleet.away = [](std::int64_t client, const Message&) { return client == 0; };
  Round round(1, federation.server);
  round.chosen = {0, 3};
  Ids taken;
  ask(round, taken);
  EXPECT_TRUE(taken.empty());
  EXPECT_FALSE(round.note_replies());
  EXPECT_EQ(federation.notes["standstill"], "too few clients answered: the model stays as it is");
}

TEST(Round, ThatDivergedAltogetherIsAnError) {
  Federation federation;
  Round round(1, federation.server);
  round.chosen = {3};
  Ids taken;
  ask(round, taken);
  const std::string text =
      "round 2: every reply held values that are not finite | the training diverged: lower "
      "train.lr";
  EXPECT_EQ(error_text([&] { std::ignore = round.note_replies(); }), text);
  EXPECT_EQ(error_text([&] { round.require_some(); }), text);
  EXPECT_TRUE(federation.notes.empty());
}

TEST(Round, StandsStillOnlyWhereSomebodyIsAbsent) {
  Federation federation;
  Round round(0, federation.server);
  round.chosen = {0, 2};
  EXPECT_FALSE(round.stands_still(true));
  EXPECT_FALSE(round.stands_still(false)) << "all answered: too little is the method's error";
  EXPECT_TRUE(federation.notes.empty());
  round.absent = {{0, AbsenceReason::silent}};
  EXPECT_FALSE(round.stands_still(true));
  EXPECT_TRUE(round.stands_still(false));
  EXPECT_TRUE(federation.notes.contains("standstill"));
  round.absent = {{0, AbsenceReason::silent}, {2, AbsenceReason::silent}};
  EXPECT_TRUE(round.stands_still(true)) << "nobody is left";
}

// Every part of it notes something and checks the round it is called with.
class Witness : public BaseMethod {
 public:
  std::vector<std::int64_t> select(Round& round, std::int64_t count) override {
    round.notes["select"] = round.number;
    return BaseMethod::select(round, count);
  }
  void begin(Round& round) override {
    BaseMethod::begin(round);
    round.notes["begin"] = round.chosen.size();
  }
  void add(Round& round, const Upload& upload) override {
    BaseMethod::add(round, upload);
    round.notes["add"].push_back(upload.client);
    EXPECT_EQ(values_of(round.global), std::vector<float>{7}) << "the model that was sent out";
  }
  State finish(Round& round) override {
    round.notes["finish"] = round.setting.rounds;
    return BaseMethod::finish(round);
  }
};

TEST(Round, GoesThroughAllPartsOfABaseMethod) {
  Federation federation;
  Witness method;
  Round round(2, federation.server, std::vector<std::int64_t>{0, 2, 5});
  method.play_round(round, 3);
  EXPECT_EQ(
      federation.notes,
      (Json{
          {"select", 2}, {"begin", 3}, {"add", {5, 2, 0}}, {"clients", {0, 2, 5}}, {"finish", 5}}));
  EXPECT_EQ(values_of(federation.global), std::vector<float>{(0 * 10 + 2 * 30 + 5 * 40) / 80.0F});
}

}  // namespace winnow::round_test
