#include "winnow/method/system/winnow/winnow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "method/one_client.h"
#include "method/small_federation.h"
#include "testing/support.h"

namespace winnow::winnowing::winnow_test {

using testing::DoubleNear;
using testing::ElementsAre;
using Ids = std::vector<std::int64_t>;
using Values = std::vector<double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Examined after the rounds 1 and 3.
const Json kShort{{"warmup", 2}, {"every", 2}};

struct Client {
  State model;
  std::int64_t samples = 100;
  std::uint32_t kept = 60;
  Values counts = {45, 5, 5, 45};  // of the labels 0 and 1
  Values mean = {.8, .8};
};

// A client with wrong labels of both classes. (Of two classes one alone would make it the cleanest
// by the other.)
const Values kMoved{30, 20, 20, 30};

// The server side over clients whose replies are given.
struct Federation {
  explicit Federation(std::vector<Client> members, Json table = kShort)
      : clients(std::move(members)),
        setting{
            .seed = 4, .rounds = 9, .clients = std::ssize(clients), .fraction = 1.0, .classes = 2},
        fleet(sizes(),
              [this](std::int64_t client, const Message& task) {
                return answer(clients[static_cast<std::size_t>(client)], task);
              }),
        method(make_with<Winnow>(table)) {}
  Federation(const Federation&) = delete;
  Federation& operator=(const Federation&) = delete;

  Ids sizes() const {
    Ids sizes;
    for (const Client& client : clients) {
      sizes.push_back(client.samples);
    }
    return sizes;
  }
  static Message answer(const Client& client, const Message& task) {
    if (task.kind() == "look") {
      return Message("look_done")
          .set("mean", client.mean)
          .set("count",
               Values{client.counts[0] + client.counts[1], client.counts[2] + client.counts[3]});
    }
    if (task.kind() == "count") {
      return Message("count_done").set("counts", client.counts);
    }
    const bool doubted = task.kind() == "train_doubted";
    return Message(doubted ? "train_doubted_done" : "train_done")
        .set("model", client.model)
        .set("samples", doubted ? client.kept : static_cast<std::uint32_t>(client.samples));
  }
  void play(std::int64_t round) {
    notes = Json::object();
    fleet.asked.clear();
    fleet.replies.clear();
    Server server{setting, fleet, global, notes};
    method->play(round, server);
    for (const Order& order : fleet.asked) {
      check(order.task, method->exchanges({}));
    }
    for (const Message& reply : fleet.replies) {
      check(reply, method->exchanges({}));
    }
  }
  Ids asked(const std::string& kind) const {
    Ids ids;
    for (const Order& order : fleet.asked) {
      if (order.task.kind() == kind) {
        ids.push_back(order.client);
      }
    }
    std::ranges::sort(ids);
    return ids;
  }

  std::vector<Client> clients;
  Setting setting;
  FakeFleet fleet;
  std::unique_ptr<Winnow> method;
  State global = state_of({7});
  Json notes = Json::object();
};

std::vector<Client> honest(std::size_t count = 4) {
  return std::vector<Client>(count, Client{state_of({8})});
}

std::vector<Client> one_noisy() {
  std::vector<Client> members = honest();
  members[2].counts = kMoved;
  members[2].model = state_of({10});
  return members;
}

TEST(Winnow, IsFedAvgUntilItsWarmUpEnds) {
  Federation federation(one_noisy());
  federation.play(0);
  EXPECT_EQ(federation.asked("train"), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(federation.fleet.asked.size(), 4U);
  EXPECT_EQ(values_of(federation.global), std::vector<float>{8.5F});
  EXPECT_FALSE(federation.notes.contains("diagnosis"));
}

TEST(Winnow, ExaminesEverybodyAfterTheTraining) {
  Federation federation(honest());
  federation.play(1);
  EXPECT_EQ(federation.fleet.asked.front().task.kind(), "train");
  EXPECT_EQ(federation.asked("look"), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(federation.asked("count"), (Ids{0, 1, 2, 3}));
  const Message& look = federation.fleet.asked[4].task;
  EXPECT_EQ(values_of(look.get<State>("model")), std::vector<float>{8.0F}) << "the new model";
  EXPECT_THAT(federation.fleet.asked.back().task.get<Values>("thresholds"),
              ElementsAre(DoubleNear(.8, 1e-12), DoubleNear(.8, 1e-12)));
  EXPECT_EQ(federation.notes["diagnosis"], "nothing wrong");
  EXPECT_EQ(federation.notes["doubted"], Json::array());
  EXPECT_FALSE(federation.notes.contains("unjudged"));
  federation.play(2);
  EXPECT_EQ(federation.fleet.asked.size(), 4U) << "not in this round";
}

TEST(Winnow, TreatsWhomItDoubts) {
  Federation federation(one_noisy());
  federation.play(1);
  EXPECT_EQ(federation.notes["doubted"], Json{2});
  EXPECT_THAT(federation.notes["diagnosis"].get<std::string>(),
              testing::MatchesRegex("labels \\(.*\\): 1"));
  federation.global = state_of({7});
  federation.play(2);
  EXPECT_EQ(federation.asked("train_doubted"), Ids{2});
  EXPECT_EQ(federation.asked("train"), (Ids{0, 1, 3}));
  EXPECT_EQ(federation.notes["treated"], Json{2});
  // Its model weighs by the 60 samples' worth that it trained on: (300 * 8 + 60 * 10) / 360.
  EXPECT_NEAR(values_of(federation.global)[0], 3000.0 / 360, 1e-5);
  const Findings found = federation.method->findings();
  EXPECT_EQ(found.flagged, Ids{2});
  EXPECT_GT(found.noise_levels.at(2), .2);
  EXPECT_EQ(found.noise_levels.at(0), 0.0);
  EXPECT_EQ(found.scores.at("wrong_labels"), found.noise_levels);
}

TEST(Winnow, LetsGoOfAClientWhoseLabelsAreRightAgain) {
  Federation federation(one_noisy());
  federation.play(1);
  federation.clients[2].counts = honest()[0].counts;
  federation.play(3);
  EXPECT_EQ(federation.asked("train_doubted"), Ids{2});
  EXPECT_EQ(federation.notes["doubted"], Json::array());
  federation.play(4);
  EXPECT_EQ(federation.asked("train"), (Ids{0, 1, 2, 3}));
}

TEST(Winnow, LeavesOutUpdatesAgainstTheOthers) {
  std::vector<Client> members = honest();
  members[1].model = state_of({5});
  Federation federation(members);
  federation.play(0);
  EXPECT_EQ(federation.notes["left_out"], Json{1});
  EXPECT_EQ(values_of(federation.global), std::vector<float>{8.0F});
  EXPECT_EQ(federation.method->findings().flagged, Ids{1});
  EXPECT_NEAR(federation.method->findings().scores.at("update_cosine").at(1), -1.0, 1e-9);
  EXPECT_NEAR(federation.method->findings().scores.at("course").at(1), -.3, 1e-9);
  EXPECT_EQ(federation.notes["cosines"].size(), 4U);

  for (Client& client : federation.clients) {
    client.model = state_of({9});
  }
  federation.play(1);
  EXPECT_FALSE(federation.notes.contains("left_out")) << "its course is good again";
  EXPECT_EQ(federation.notes["diagnosis"], "nothing wrong");

  Federation unguarded(members, {{"warmup", 2}, {"guard", false}});
  unguarded.play(0);
  EXPECT_EQ(values_of(unguarded.global), std::vector<float>{7.25F});
}

TEST(Winnow, SaysWhenItFindsHostileUpdates) {
  std::vector<Client> members = honest();
  members[1].model = state_of({5});
  Federation federation(members);
  federation.play(1);
  EXPECT_EQ(federation.notes["diagnosis"], "hostile updates: 1");
}

TEST(Winnow, KeepsTheModelWhenNobodyIsSureOfAnything) {
  std::vector<Client> members = one_noisy();
  members[2].kept = 0;
  Federation federation(members);
  federation.play(1);
  federation.fleet.away = [](std::int64_t client, const Message&) { return client != 2; };
  federation.global = state_of({7});
  federation.play(2);
  EXPECT_EQ(values_of(federation.global), std::vector<float>{7.0F});
  EXPECT_EQ(federation.notes["treated"], Json{2});
}

TEST(Winnow, KnowsOfTheAbsentWhatItKnewBefore) {
  Federation federation(one_noisy());
  federation.play(1);
  federation.fleet.away = [](std::int64_t client, const Message& task) {
    return client == 2 && task.kind() == "look";
  };
  federation.play(3);
  EXPECT_EQ(federation.notes["unjudged"], Json{2});
  EXPECT_EQ(federation.notes["doubted"], Json{2});
  federation.fleet.away = [](std::int64_t, const Message& task) {
    return task.kind() == "look" || task.kind() == "count";
  };
  federation.play(5);
  EXPECT_EQ(federation.notes["unjudged"], (Json{0, 1, 2, 3}));
  EXPECT_EQ(federation.notes["doubted"], Json{2});
}

TEST(Winnow, DoesNotJudgeAClientWhoseModelSaysNothing) {
  std::vector<Client> members = honest();
  members[3].mean = {kNaN, .8};
  Federation federation(members);
  federation.play(1);
  EXPECT_EQ(federation.notes["unjudged"], Json{3});
  EXPECT_FALSE(federation.notes.contains("rejected")) << "its training was usable";
}

// P = 1 value, C = 2 classes, 4 clients.
TEST(Winnow, CostsAModelDownAndSumsUpForAnExamination) {
  Federation federation(honest());
  federation.play(0);
  EXPECT_EQ(federation.fleet.traffic().bytes_down, 4 * 8);
  EXPECT_EQ(federation.fleet.traffic().bytes_up, 4 * 8);
  federation.play(1);
  EXPECT_EQ(federation.fleet.traffic().bytes_down, 4 * (2 * 8 + 4 + 8 * 2));
  EXPECT_EQ(federation.fleet.traffic().bytes_up, 4 * (2 * 8 + 16 * 2 + 8 * 4));
}

TEST(Winnow, ResumesBetweenRounds) {
  std::vector<Client> members = one_noisy();
  members[1].model = state_of({5});
  Federation whole(members);
  Federation first(members);
  for (std::int64_t round = 0; round < 6; ++round) {
    whole.play(round);
    first.play(round);
    Archive archive;
    archive.bounds = {.samples = {100, 100, 100, 100}, .classes = 2};
    first.method->save(archive);
    archive = out_of_a_file(archive);
    archive.values = Json::parse(archive.values.dump());
    first.method = make_with<Winnow>(kShort);
    first.method->load(archive);
    EXPECT_EQ(hash(first.global), hash(whole.global)) << round;
    EXPECT_EQ(first.method->findings().scores, whole.method->findings().scores) << round;
    EXPECT_EQ(first.method->findings().flagged, whole.method->findings().flagged) << round;
  }
  whole.method->load({});
  EXPECT_FALSE(whole.method->findings().flagged.has_value()) << "all is taken back";
}

TEST(Winnow, RefusesForgedState) {
  Federation federation(one_noisy());
  federation.play(1);
  const auto load = [&](const std::function<void(Archive&)>& change) {
    Archive archive;
    archive.bounds = {.samples = {100, 100, 100, 100}, .classes = 2};
    federation.method->save(archive);
    archive = out_of_a_file(archive);
    change(archive);
    make_with<Winnow>(kShort)->load(archive);
  };
  EXPECT_NO_THROW(load([](Archive&) {}));
  const std::string trust =
      "trust: expected a row of values from 0 to 1 for every client whose labels are doubted";
  EXPECT_EQ(error_text([&] { load([](Archive& a) { a.tensors.erase("trust/2"); }); }), trust);
  for (const double off : {-1.5, 1.5}) {
    EXPECT_EQ(error_text([&] {
                load([off](Archive& a) { a.tensors["trust/2"] = a.tensors["trust/2"] + off; });
              }),
              trust);
  }
  EXPECT_EQ(error_kind([&] {
              load([](Archive& a) { a.tensors["trust/2"] = at::ones({2, 4}, at::kDouble); });
            }),
            ErrorKind::run);
  EXPECT_EQ(error_kind([&] { load([](Archive& a) { a.values["labels"]["2"]["rate"] = 2; }); }),
            ErrorKind::run);
  EXPECT_EQ(error_kind([&] { load([](Archive& a) { a.values["labels"]["2"]["kind"] = 5; }); }),
            ErrorKind::run);
  EXPECT_EQ(error_kind([&] { load([](Archive& a) { a.values["conduct"]["0"]["cosine"] = 2; }); }),
            ErrorKind::run);
}

TEST(Winnow, RefusesWhatCannotBe) {
  EXPECT_EQ(error_text([] {
              make_with<Winnow>({{"warmup", 9}})->check({.rounds = 9});
            }),
            "method.warmup = 9: expected fewer than the 9 rounds of the run | a run that ends with "
            "its warm-up trusts all labels");
  EXPECT_EQ(error_text([] {
              make_with<Winnow>({{"enter", .1}, {"leave", .2}})->check({.rounds = 9});
            }),
            "method.leave = 0.2: expected at most method.enter, which is 0.1 | a client would be "
            "doubted and cleared by the same share of wrong labels");
  EXPECT_EQ(error_text([] { make_with<Winnow>()->check({.rounds = 99, .classes = 1001}); }),
            "method winnow: 1001 classes are more than 1000, the most whose pairs it can compare");
  EXPECT_THAT(error_text([] {
                make_with<Winnow>({{"base", "scaffold"}});
              }),
              testing::StartsWith("method.base = \"scaffold\": expected one of fedavg, fedavgm, "
                                  "fedadam, fedyogi, fedadagrad, fedexp"));
}

// Over real clients with right labels: examined after the first two rounds, and nothing else.
TEST(Winnow, WhereNothingIsWrongIsItsBaseBitForBit) {
  for (const char* base : {"fedavg", "fedavgm", "fedyogi", "fedexp"}) {
    const auto alone = builtin_methods().find(base).make();
    const auto winnow = make_with<Winnow>({{"base", base}, {"warmup", 1}, {"every", 1}});
    EXPECT_EQ(round_hashes(*winnow), round_hashes(*alone)) << base;
    EXPECT_EQ(winnow->findings().noise_levels.size(), 4U) << "it has examined all the same";
    EXPECT_TRUE(winnow->findings().flagged->empty()) << base;
  }
}

}  // namespace winnow::winnowing::winnow_test
