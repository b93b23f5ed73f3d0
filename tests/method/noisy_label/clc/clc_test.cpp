#include "winnow/method/noisy_label/clc/clc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "testing/support.h"
#include "winnow/federation/selection.h"
#include "winnow/method/base_method.h"

namespace winnow::clc_test {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::FloatNear;
using Ids = std::vector<std::int64_t>;
using Values = std::vector<double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::unique_ptr<Clc> make_clc(const Json& table) {
  auto method = std::make_unique<Clc>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

// A start, two rounds of hold-out, two of correction.
const Json kShort{{"start_rounds", 1}, {"holdout_rounds", 2}, {"correction_rounds", 2}};

struct Client {
  State model;
  std::int64_t samples = 0;
  std::uint32_t kept = 0;
  Values mean;
  Values count;
};

// CLC on the server side over clients whose replies are given.
struct Federation {
  explicit Federation(std::vector<Client> members, double fraction = 1.0)
      : clients(std::move(members)),
        setting{.seed = 4,
                .rounds = 999,
                .clients = static_cast<std::int64_t>(clients.size()),
                .fraction = fraction,
                .classes = 2},
        fleet(sizes(),
              [this](std::int64_t client, const Message& task) {
                return answer(clients[static_cast<std::size_t>(client)], task);
              }),
        method(make_clc(kShort)) {}
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
    if (task.kind() == "confidence") {
      return Message("confidence_done").set("mean", client.mean).set("count", client.count);
    }
    if (task.kind() == "correct") {
      return Message("correct_done").set("relabelled", std::uint32_t{3});
    }
    const bool kept = task.kind() == "train_kept";
    return Message(kept ? "train_kept_done" : "train_done")
        .set("model", client.model)
        .set("samples", kept ? client.kept : static_cast<std::uint32_t>(client.samples));
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
    return ids;
  }

  std::vector<Client> clients;
  Setting setting;
  FakeFleet fleet;
  std::unique_ptr<Clc> method;
  State global = state_of({7});
  Json notes = Json::object();
};

// spec: baselines 20: counts and confidences of the worked example.
std::vector<Client> worked() {
  return {{state_of({1}), 15, 10, {.6, .8}, {10, 5}}, {state_of({3}), 45, 30, {.4, .9}, {30, 15}}};
}

TEST(Clc, StartsWithFedAvg) {
  Federation federation(worked());
  federation.play(0);
  EXPECT_EQ(federation.notes["stage"], "start");
  EXPECT_EQ(federation.asked("train"), (Ids{1, 0}));
  EXPECT_EQ(federation.fleet.asked.size(), 2U);
  EXPECT_EQ(values_of(federation.global), std::vector<float>{2.5F});
}

TEST(Clc, SendsTheConsensusWithTheTaskToTrain) {
  Federation federation(worked());
  federation.play(1);
  EXPECT_EQ(federation.notes["stage"], "hold out");
  EXPECT_EQ(federation.asked("confidence"), (Ids{1, 0}));
  EXPECT_EQ(federation.asked("train_kept"), (Ids{1, 0}));
  const Message& task = federation.fleet.asked.back().task;
  EXPECT_EQ(task.get<std::uint32_t>("round"), 1U);
  EXPECT_THAT(task.get<Values>("confidence"),
              ElementsAre(DoubleNear(.45, 1e-12), DoubleNear(.875, 1e-12)));
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1}));
  EXPECT_FALSE(federation.notes.contains("rejected"));
}

TEST(Clc, WeighsByTheKeptCounts) {
  std::vector<Client> members = worked();
  members[0].kept = 9;
  members[1].kept = 3;
  Federation federation(members);
  federation.play(1);
  EXPECT_EQ(values_of(federation.global), std::vector<float>{1.5F});
  EXPECT_NEAR(federation.notes["held_out"].get<double>(), 0.8, 1e-12);
  const Findings found = federation.method->findings();
  EXPECT_NEAR(found.scores.at("held_out").at(0), 0.4, 1e-12);
  EXPECT_NEAR(found.scores.at("held_out").at(1), 42.0 / 45, 1e-12);
  EXPECT_FALSE(found.flagged.has_value());
}

TEST(Clc, PassesOverAClientThatKeptNothing) {
  std::vector<Client> members = worked();
  members[1].kept = 0;
  Federation federation(members);
  federation.play(1);
  EXPECT_EQ(values_of(federation.global), std::vector<float>{1.0F});
  EXPECT_EQ(federation.method->findings().scores.at("held_out").at(1), 1.0);
}

TEST(Clc, KeepsTheModelWhenNobodyKeptAnything) {
  std::vector<Client> members = worked();
  members[0].kept = 0;
  members[1].kept = 0;
  Federation federation(members);
  federation.play(1);
  EXPECT_EQ(values_of(federation.global), std::vector<float>{7.0F});
  EXPECT_EQ(federation.notes["held_out"], 1.0);
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1}));
}

TEST(Clc, NeverBelievesAClassThatNobodyHas) {
  std::vector<Client> members = worked();
  for (Client& client : members) {
    client.mean[1] = 0;
    client.count[1] = 0;
  }
  Federation federation(members);
  federation.play(1);
  EXPECT_THAT(federation.fleet.asked.back().task.get<Values>("confidence"),
              ElementsAre(DoubleNear(.45, 1e-12), 1.0));
}

TEST(Clc, CorrectsEveryClientOnceThenPlaysFedAvg) {
  Federation federation(worked(), 0.5);
  federation.play(3);
  EXPECT_EQ(federation.notes["stage"], "correction");
  EXPECT_EQ(federation.asked("confidence"), (Ids{1, 0}));
  EXPECT_EQ(federation.asked("correct"), (Ids{1, 0}));
  EXPECT_EQ(federation.asked("train"), select_uniform(Ids{0, 1}, 1, 4, 3));
  EXPECT_THAT(federation.fleet.asked[2].task.get<Values>("confidence"),
              ElementsAre(DoubleNear(.45, 1e-12), DoubleNear(.875, 1e-12)));
  EXPECT_EQ(federation.notes["relabelled"], 6);
  EXPECT_EQ(federation.notes["clients"], Json(federation.asked("train")));
  EXPECT_FALSE(federation.notes.contains("uncorrected"));

  federation.play(4);
  EXPECT_EQ(federation.asked("train").size(), 1U);
  EXPECT_EQ(federation.fleet.asked.size(), 1U);
  EXPECT_FALSE(federation.notes.contains("relabelled"));
}

// spec: baselines T6; P = 1 value, C = 2 classes.
TEST(Clc, CostsThreeNumbersPerClassMoreThanFedAvg) {
  Federation federation(worked());
  const auto bytes = [&] {
    const Traffic& traffic = federation.fleet.traffic();
    return std::pair(traffic.bytes_down, traffic.bytes_up);
  };
  federation.play(0);
  EXPECT_EQ(bytes(), std::pair(2 * std::int64_t{8}, 2 * std::int64_t{8}));
  federation.play(1);
  EXPECT_EQ(bytes(), std::pair(2 * std::int64_t{16 + 8 * 2}, 2 * std::int64_t{16 + 16 * 2}));
  const auto [down, up] = bytes();
  federation.play(3);
  EXPECT_EQ(bytes(), std::pair(down + 2 * (4 + 8 * 2 + 8), up + 2 * (16 * 2 + 4 + 8)));
}

TEST(Clc, RejectsConfidencesThatAreNotNumbers) {
  for (const double bad : {kNaN, std::numeric_limits<double>::infinity(), -0.1}) {
    for (const bool in_count : {false, true}) {
      std::vector<Client> members = worked();
      members.push_back({state_of({900}), 50, 50, {.5, .5}, {25, 25}});
      (in_count ? members[2].count : members[2].mean)[1] = bad;
      Federation federation(members);
      federation.play(1);
      EXPECT_EQ(federation.notes["rejected"], Json{2}) << bad;
      EXPECT_EQ(federation.asked("train_kept"), (Ids{1, 0}));
      EXPECT_THAT(federation.fleet.asked.back().task.get<Values>("confidence"),
                  ElementsAre(DoubleNear(.45, 1e-12), DoubleNear(.875, 1e-12)));
      EXPECT_EQ(values_of(federation.global), std::vector<float>{2.5F});
      federation.play(3);
      EXPECT_EQ(federation.notes["uncorrected"], Json{2});
      EXPECT_EQ(federation.asked("correct"), (Ids{1, 0}));
      EXPECT_FALSE(federation.notes.contains("rejected"));
    }
  }
}

TEST(Clc, RejectsAModelThatIsNotFinite) {
  std::vector<Client> members = worked();
  members.push_back({state_of({static_cast<float>(kNaN)}), 5, 5, {.6, .8}, {0, 0}});
  Federation federation(members);
  federation.play(1);
  EXPECT_EQ(federation.notes["rejected"], Json{2});
  EXPECT_EQ(values_of(federation.global), std::vector<float>{2.5F});
  EXPECT_FALSE(federation.method->findings().scores.at("held_out").contains(2));
}

TEST(Clc, GivesUpWhenEveryReplyIsNotFinite) {
  std::vector<Client> members = worked();
  for (Client& client : members) {
    client.mean[0] = kNaN;
  }
  Federation diverged(members);
  const std::string hint = " | the training diverged: lower train.lr";
  EXPECT_EQ(error_text([&] { diverged.play(1); }),
            "round 2: every reply held values that are not finite" + hint);
  EXPECT_EQ(error_text([&] { diverged.play(3); }),
            "round 4: every reply held values that are not finite" + hint);
  members = worked();
  for (Client& client : members) {
    client.model = state_of({static_cast<float>(kNaN)});
  }
  Federation trained(members);
  EXPECT_EQ(error_text([&] { trained.play(1); }),
            "round 2: every reply held values that are not finite" + hint);
}

TEST(Clc, LeavesClientsWithoutSamplesOut) {
  std::vector<Client> members = worked();
  members.push_back({state_of({900}), 0, 0, {0, 0}, {0, 0}});
  Federation federation(members);
  federation.play(1);
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1}));
  federation.play(3);
  EXPECT_EQ(federation.asked("correct"), (Ids{1, 0}));
}

TEST(Clc, ResumesBetweenRounds) {
  Federation whole(worked(), 0.5);
  Federation first(worked(), 0.5);
  for (std::int64_t round = 0; round < 5; ++round) {
    whole.play(round);
    first.play(round);
    Archive archive;
    first.method->save(archive);
    archive = out_of_a_file(archive);
    archive.values = Json::parse(archive.values.dump());
    first.method = make_clc(kShort);
    first.method->load(archive);
    EXPECT_EQ(hash(first.global), hash(whole.global)) << round;
    EXPECT_EQ(first.method->findings().scores, whole.method->findings().scores) << round;
  }
  whole.method->load({});
  EXPECT_TRUE(whole.method->findings().scores.at("held_out").empty()) << "all is taken back";
}

TEST(Clc, HasItsOwnNumberOfRounds) {
  EXPECT_EQ(make_clc(kShort)->rounds({.rounds = 60}), 5);
  EXPECT_EQ(Clc().rounds({.rounds = 60}), 201);
}

TEST(Clc, RefusesAScheduleWithoutRounds) {
  const auto empty =
      make_clc({{"start_rounds", 0}, {"holdout_rounds", 0}, {"correction_rounds", 0}});
  EXPECT_EQ(error_text([&] { empty->check({}); }),
            "method.start_rounds, holdout_rounds and correction_rounds are all 0 | expected at "
            "least one round");
  EXPECT_NO_THROW(make_clc({{"start_rounds", 0}, {"holdout_rounds", 0}})->check({}));
}

TEST(Clc, IsNoBaseForOtherMethods) {
  const MethodInfo info = clc_info();
  EXPECT_EQ(info.name, "clc");
  EXPECT_EQ(info.group, "noisy-label");
  EXPECT_EQ(dynamic_cast<BaseMethod*>(info.make().get()), nullptr);
}

TEST(ClcAbsences, TheConsensusIsThatOfThoseWhoAnswer) {
  Federation federation(worked());
  federation.fleet.away = [](std::int64_t client, const Message&) { return client == 0; };
  federation.play(1);
  EXPECT_EQ(federation.asked("train_kept"), Ids{1});
  EXPECT_EQ(values_of(federation.global), std::vector<float>{3});
  federation.play(3);
  EXPECT_EQ(federation.notes["uncorrected"], Json::array({0})) << "it keeps its labels";
}

TEST(ClcAbsences, NobodyLeavesTheModelAsItIs) {
  Federation federation(worked());
  for (const std::string kind : {"confidence", "train_kept"}) {
    federation.fleet.away = [kind](std::int64_t, const Message& task) {
      return task.kind() == kind;
    };
    federation.play(1);
    EXPECT_EQ(values_of(federation.global), std::vector<float>{7}) << kind;
    EXPECT_FALSE(federation.notes.contains("held_out")) << "a share of nothing";
    EXPECT_TRUE(federation.notes.contains("standstill"));
  }
}

}  // namespace winnow::clc_test
