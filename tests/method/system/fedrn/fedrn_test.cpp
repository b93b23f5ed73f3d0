#include "winnow/method/system/fedrn/fedrn.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "testing/support.h"
#include "winnow/federation/selection.h"

namespace winnow::fedrn::fedrn_test {

using Ids = std::vector<std::int64_t>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::unique_ptr<FedRN> fedrn(const Json& table = Json::object()) {
  auto method = std::make_unique<FedRN>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

struct Reply {
  State model;
  double accuracy = 0.5;
  std::vector<float> output = {1, 0, 0};
  std::uint32_t samples = 10;
};

// The worked example (spec: label-noise B.8 #1); models tell their client.
std::vector<Reply> worked_example() {
  return {{state_of({0}), 0.6, {2, 0, -1}},
          {state_of({1}), 0.8, {1.5, 0.5, -1}},
          {state_of({2}), 0.9, {-1, 2, 0}},
          {state_of({3}), 0.4, {0, -1, 2}},
          {state_of({4}), 0.7, {2, 0.2F, -0.8F}}};
}

// FedRN's server over clients whose replies are given and may be changed between rounds.
struct Federation {
  Federation(const Json& table, std::vector<Reply> its_replies, double fraction = 1.0,
             State start = state_of({100}))
      : replies(std::move(its_replies)),
        setting{.seed = 4,
                .rounds = 10,
                .clients = static_cast<std::int64_t>(replies.size()),
                .fraction = fraction,
                .classes = 3},
        fleet(Ids(replies.size(), 10),
              [this](std::int64_t client, const Message&) {
                const Reply& reply = replies[static_cast<std::size_t>(client)];
                return Message("local_done")
                    .set("model", reply.model)
                    .set("samples", reply.samples)
                    .set("accuracy", reply.accuracy)
                    .set("output", reply.output);
              }),
        global(std::move(start)),
        method(fedrn(table)) {}

  void play(std::int64_t round) {
    fleet.asked.clear();
    notes = Json::object();
    Server server{setting, fleet, global, notes};
    method->play(round, server);
    for (const Order& order : fleet.asked) {
      EXPECT_NO_THROW(check(order.task, method->exchanges({})));
    }
  }
  const Message& task_of(std::int64_t client) const {
    return std::ranges::find(fleet.asked, client, &Order::client)->task;
  }
  Ids asked() const {
    Ids clients;
    for (const Order& order : fleet.asked) {
      clients.push_back(order.client);
    }
    return clients;
  }
  // First values of the neighbours' models: their client ids, as long as models tell them.
  std::vector<float> neighbours_of(std::int64_t client) const {
    std::vector<float> values;
    for (const State& model : task_of(client).get<std::vector<State>>("neighbours")) {
      values.push_back(values_of(model).front());
    }
    return values;
  }
  std::vector<double> reliability_of(std::int64_t client) const {
    return task_of(client).get<std::vector<double>>("reliability");
  }

  std::vector<Reply> replies;
  Setting setting;
  FakeFleet fleet;
  State global;
  Json notes = Json::object();
  std::unique_ptr<FedRN> method;
};

TEST(FedRN, WarmUpAveragesByTheNumberOfSamples) {
  Federation federation(
      {{"warmup", 3}},
      {{.model = state_of({1, 0}), .samples = 100}, {.model = state_of({3, 8}), .samples = 300}},
      1.0, state_of({9, 9}));
  const State sent = federation.global;
  federation.play(2);
  EXPECT_EQ(values_of(federation.global), (std::vector<float>{2.5F, 6.0F}));
  EXPECT_EQ(values_of(sent), (std::vector<float>{9, 9})) << "replaced, never changed";
  EXPECT_EQ(federation.notes["phase"], "warm-up");
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1}));
  EXPECT_FALSE(federation.notes.contains("neighbours"));
  EXPECT_FALSE(federation.notes.contains("rejected"));
  for (const Order& order : federation.fleet.asked) {
    EXPECT_EQ(order.task.kind(), "warmup");
    EXPECT_EQ(order.task.get<std::uint32_t>("round"), 2U);
    EXPECT_EQ(order.task.get<State>("model").flat.data_ptr(), sent.flat.data_ptr());
  }
  federation.play(3);
  EXPECT_EQ(federation.task_of(0).kind(), "robust");
  EXPECT_EQ(values_of(federation.global), (std::vector<float>{2.5F, 6.0F}));
}

// spec: label-noise B.8 #1
TEST(FedRN, SendsTheMostReliableNeighbours) {
  Federation federation({{"neighbours", 2}, {"warmup", 1}}, worked_example());
  federation.play(0);
  federation.play(1);
  EXPECT_EQ(federation.task_of(0).kind(), "robust");
  EXPECT_EQ(federation.neighbours_of(0), (std::vector<float>{1, 4}));
  const std::vector<double> reliability = federation.reliability_of(0);
  ASSERT_EQ(reliability.size(), 3U);
  EXPECT_NEAR(reliability[0], 0.64, 1e-6);
  EXPECT_NEAR(reliability[1], 0.86748082, 1e-6);
  EXPECT_NEAR(reliability[2], 0.75779368, 1e-6);
  EXPECT_EQ(federation.notes["phase"], "robust");
  EXPECT_EQ(federation.notes["neighbours"]["0"], (Json{1, 4}));
  EXPECT_EQ(federation.notes["neighbours"].size(), 5U);
}

TEST(FedRN, ComparesSoftmaxOutputsWhenTold) {
  Federation federation({{"neighbours", 2}, {"warmup", 1}, {"similarity", "softmax"}},
                        worked_example());
  federation.play(0);
  federation.play(1);
  EXPECT_NEAR(federation.reliability_of(0)[1], 0.86820316, 1e-6);
  EXPECT_NEAR(federation.reliability_of(0)[2], 0.75976141, 1e-6);
}

// spec: label-noise B.4 #6
TEST(FedRN, NeighboursAreThoseOfTheRoundsStart) {
  Federation federation({{"neighbours", 4}, {"warmup", 1}}, worked_example());
  federation.play(0);
  for (Reply& reply : federation.replies) {
    reply.model = state_of({values_of(reply.model).front() + 10});
  }
  for (const float age : {0.0F, 10.0F}) {
    federation.play(age == 0.0F ? 1 : 2);
    for (std::int64_t client = 0; client < 5; ++client) {
      const std::vector<float> sent = federation.neighbours_of(client);
      EXPECT_EQ(std::set<float>(sent.begin(), sent.end()).size(), 4U);
      for (const float neighbour : sent) {
        EXPECT_GE(neighbour, age);
        EXPECT_LT(neighbour, age + 5);
      }
    }
  }
}

// spec: label-noise B.4 #6: the authors' code trains clients one after the other.
TEST(FedRN, LendsModelsOfTheSameRoundWhenTold) {
  Federation federation({{"neighbours", 4}, {"warmup", 1}, {"fresh", true}}, worked_example());
  federation.play(0);
  for (Reply& reply : federation.replies) {
    reply.model = state_of({values_of(reply.model).front() + 10});
  }
  federation.play(1);
  std::vector<std::int64_t> order = federation.asked();
  ASSERT_EQ(order.size(), 5U);
  for (std::size_t turn = 0; turn < 5; ++turn) {
    const std::vector<float> sent = federation.neighbours_of(order[turn]);
    EXPECT_EQ(std::ranges::count_if(sent, [](float model) { return model >= 10; }),
              static_cast<std::ptrdiff_t>(turn))
        << "those who had their turn before";
  }
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1, 2, 3, 4}));
  EXPECT_EQ(federation.notes["neighbours"].size(), 5U);
  EXPECT_NEAR(values_of(federation.global).front(), 12.0, 1e-6);
  std::ranges::sort(order);
  EXPECT_EQ(order, (Ids{0, 1, 2, 3, 4}));
}

// spec: label-noise B.4 #5
TEST(FedRN, OnlyClientsThatUploadedAreNeighbours) {
  std::vector<Reply> replies;
  for (int client = 0; client < 10; ++client) {
    replies.push_back({state_of({static_cast<float>(client)}), 0.1 * client, {1, 0, 0}});
  }
  Federation federation({{"neighbours", 5}, {"warmup", 1}}, std::move(replies), 0.3);
  federation.play(0);
  const Ids first = federation.asked();
  ASSERT_EQ(first.size(), 3U);
  std::int64_t round = 1;
  const Ids everybody{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto has_new_client = [&](std::int64_t number) {
    const Ids next = select_uniform(everybody, 3, 4, number);
    return std::ranges::any_of(
        next, [&](std::int64_t client) { return !std::ranges::count(first, client); });
  };
  while (!has_new_client(round)) {
    ++round;
  }
  federation.play(round);
  for (const std::int64_t client : federation.asked()) {
    const bool known = std::ranges::count(first, client) > 0;
    EXPECT_EQ(federation.neighbours_of(client).size(), known ? 2U : 3U) << "fewer than asked for";
    for (const float neighbour : federation.neighbours_of(client)) {
      EXPECT_TRUE(std::ranges::count(first, static_cast<std::int64_t>(neighbour)));
      EXPECT_NE(neighbour, static_cast<float>(client));
    }
    if (!known) {
      const std::vector<double> reliability = federation.reliability_of(client);
      EXPECT_EQ(reliability.front(), 1.0);
      EXPECT_NEAR(reliability[1], 1.0, 1e-12) << "alpha * 1 + (1 - alpha) for the best of them";
      EXPECT_NEAR(reliability[3], 0.4, 1e-12) << "alpha * 0 + (1 - alpha) for the worst of them";
    }
  }
}

TEST(FedRN, NeedsNoWarmUp) {
  Federation federation({{"neighbours", 2}, {"warmup", 0}}, worked_example());
  federation.play(0);
  for (std::int64_t client = 0; client < 5; ++client) {
    EXPECT_TRUE(federation.neighbours_of(client).empty());
    EXPECT_EQ(federation.reliability_of(client), std::vector<double>{1.0});
  }
  EXPECT_EQ(federation.notes["phase"], "robust");
}

TEST(FedRN, EqualScoresKeepTheLowerIds) {
  std::vector<Reply> replies(6, {.model = state_of({0})});
  for (std::size_t client = 0; client < replies.size(); ++client) {
    replies[client].model = state_of({static_cast<float>(client)});
  }
  Federation federation({{"neighbours", 2}, {"warmup", 1}}, std::move(replies));
  federation.play(0);
  federation.play(1);
  EXPECT_EQ(federation.neighbours_of(0), (std::vector<float>{1, 2}));
  EXPECT_EQ(federation.neighbours_of(1), (std::vector<float>{0, 2}));
  EXPECT_EQ(federation.neighbours_of(5), (std::vector<float>{0, 1}));
  EXPECT_EQ(federation.reliability_of(5), (std::vector<double>{1, 1, 1}));
}

TEST(FedRN, WorksWithoutNeighbours) {
  Federation federation({{"neighbours", 0}, {"warmup", 1}}, worked_example());
  federation.play(0);
  federation.play(1);
  EXPECT_TRUE(federation.neighbours_of(0).empty());
  ASSERT_EQ(federation.reliability_of(0).size(), 1U);
  EXPECT_NEAR(federation.reliability_of(0)[0], 0.64, 1e-12);
  EXPECT_EQ(federation.task_of(0).bytes(), 4 + 4 + 8);
}

TEST(FedRN, RandomNeighboursWeighTheSame) {
  const Json table{{"neighbours", 2}, {"warmup", 1}, {"choice", "random"}};
  Federation federation(table, worked_example());
  Federation again(table, worked_example());
  federation.play(0);
  again.play(0);
  std::set<std::vector<float>> seen;
  for (std::int64_t round = 1; round < 12; ++round) {
    federation.play(round);
    again.play(round);
    const std::vector<float> sent = federation.neighbours_of(0);
    ASSERT_EQ(sent.size(), 2U);
    EXPECT_NE(sent[0], sent[1]);
    EXPECT_NE(sent[0], 0.0F);
    EXPECT_EQ(federation.reliability_of(0), (std::vector<double>{1, 1, 1}));
    EXPECT_EQ(again.neighbours_of(0), sent);
    seen.insert(sent);
  }
  EXPECT_GT(seen.size(), 2U);
}

TEST(FedRN, RandomNeighboursWeighTheirReliabilityWhenTold) {
  Federation federation(
      {{"neighbours", 4}, {"warmup", 1}, {"choice", "random"}, {"random_weights", "reliability"}},
      worked_example());
  federation.play(0);
  federation.play(1);
  // All four others, in the order of their ids (spec: label-noise B.8 #1).
  EXPECT_EQ(federation.neighbours_of(0), (std::vector<float>{1, 2, 3, 4}));
  const std::vector<double> reliability = federation.reliability_of(0);
  ASSERT_EQ(reliability.size(), 5U);
  EXPECT_NEAR(reliability[0], 0.64, 1e-6);
  EXPECT_NEAR(reliability[1], 0.86748082, 1e-6);
  EXPECT_NEAR(reliability[2], 0.6, 1e-6);
  EXPECT_NEAR(reliability[3], 0.0, 1e-6);
  EXPECT_NEAR(reliability[4], 0.75779368, 1e-6);
}

// spec: label-noise B.6
TEST(FedRN, CostsKPlusTwoModelsPerClient) {
  const LayoutPtr layout =
      builtin_networks().find("cnn4").make({10, 3, 32, 32})->weights().layout();
  const State model = State::zeros(layout);
  ASSERT_EQ(model.bytes(), 462'632);
  std::vector<Reply> replies(10, {.model = model, .output = std::vector<float>(10, 1.0F)});
  Federation federation({{"neighbours", 2}, {"warmup", 1}}, std::move(replies), 1.0, model);
  federation.setting.classes = 10;
  federation.play(0);
  EXPECT_EQ(federation.task_of(0).bytes(), 4 + 462'632);
  EXPECT_EQ(federation.fleet.replies.front().bytes(), 462'632 + 4 + 8 + 40);
  const Traffic warm = federation.fleet.traffic();
  EXPECT_EQ(warm.bytes_down, 10 * (4 + 462'632));
  EXPECT_EQ(warm.bytes_up, 10 * (462'632 + 52));
  EXPECT_EQ(warm.bytes_down + warm.bytes_up, 9'252'640 + 10 * 56);

  federation.play(1);
  EXPECT_EQ(federation.task_of(0).bytes(), 4 + 3 * 462'632 + 8 * 3);
  const Traffic both = federation.fleet.traffic();
  const std::int64_t robust = both.bytes_down + both.bytes_up - warm.bytes_down - warm.bytes_up;
  EXPECT_EQ(robust, 18'505'280 + 10 * (56 + 24));
  EXPECT_EQ(100 * std::int64_t{9'252'640} + 400 * std::int64_t{18'505'280}, 8'327'376'000);
}

TEST(FedRN, RejectsRepliesThatAreNotFinite) {
  Federation federation({{"neighbours", 4}, {"warmup", 1}}, worked_example());
  federation.play(0);
  federation.replies[0].model = state_of({kNaN});
  federation.replies[1].accuracy = kNaN;
  federation.replies[2].output = {0, std::numeric_limits<float>::infinity(), 0};
  federation.replies[3].model = state_of({30});
  federation.replies[4].model = state_of({40});
  federation.play(1);
  EXPECT_EQ(federation.notes["rejected"], (Json{0, 1, 2}));
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1, 2, 3, 4}));
  EXPECT_EQ(values_of(federation.global), std::vector<float>{35}) << "not aggregated";
  federation.play(2);
  const std::vector<float> sent = federation.neighbours_of(3);
  EXPECT_EQ(std::set<float>(sent.begin(), sent.end()), (std::set<float>{0, 1, 2, 40}))
      << "not stored: the older upload stays";
  EXPECT_EQ(federation.method->findings().scores.at("expertise").at(1), 0.8);
}

TEST(FedRN, ARejectedClientIsNotKnown) {
  std::vector<Reply> replies = worked_example();
  replies[1].accuracy = kNaN;
  Federation federation({{"neighbours", 4}, {"warmup", 1}}, std::move(replies));
  federation.play(0);
  federation.play(1);
  const std::vector<float> sent = federation.neighbours_of(0);
  EXPECT_EQ(std::set<float>(sent.begin(), sent.end()), (std::set<float>{2, 3, 4}));
  EXPECT_FALSE(federation.method->findings().scores.at("expertise").contains(1));
}

TEST(FedRN, GivesUpWhenEveryReplyIsNotFinite) {
  Federation federation({{"warmup", 1}},
                        {{.model = state_of({kNaN})}, {.model = state_of({1}), .accuracy = kNaN}});
  const State start = federation.global;
  EXPECT_EQ(error_text([&] { federation.play(7); }),
            "round 8: every reply held values that are not finite | the training diverged: lower "
            "train.lr");
  EXPECT_EQ(error_kind([&] { federation.play(7); }), ErrorKind::run);
  EXPECT_EQ(hash(federation.global), hash(start));
}

TEST(FedRN, RefusesAFederationWithoutSamples) {
  Federation federation(Json::object(), worked_example());
  federation.fleet = FakeFleet({0, 0}, [](std::int64_t, const Message&) { return Message("x"); });
  EXPECT_EQ(error_text([&] { federation.play(0); }), "no client holds a sample");
}

TEST(FedRN, FindsTheExpertiseOfClients) {
  Federation federation({{"warmup", 1}}, worked_example());
  EXPECT_TRUE(federation.method->findings().scores.at("expertise").empty());
  federation.play(0);
  const Findings findings = federation.method->findings();
  EXPECT_EQ(findings.scores.at("expertise"),
            (std::map<std::int64_t, double>{{0, 0.6}, {1, 0.8}, {2, 0.9}, {3, 0.4}, {4, 0.7}}));
  EXPECT_FALSE(findings.flagged) << "it judges samples, not clients";
}

Archive through_text(const Archive& archive) {
  Archive filed = out_of_a_file(archive);
  filed.values = Json::parse(filed.values.dump());
  return filed;
}

TEST(FedRN, SavesAndLoads) {
  for (const int limit : {0, 2048}) {
    const Json table{{"neighbours", 2}, {"warmup", 1}, {"store_limit_mb", limit}};
    Federation federation(table, worked_example());
    federation.replies[2].accuracy = 1.0 / 3.0;
    federation.play(0);
    Archive saved;
    federation.method->save(saved);
    Federation resumed(table, worked_example());
    resumed.method->load(through_text(saved));
    federation.play(1);
    resumed.play(1);
    for (std::int64_t client = 0; client < 5; ++client) {
      EXPECT_EQ(resumed.neighbours_of(client), federation.neighbours_of(client));
      EXPECT_EQ(resumed.reliability_of(client), federation.reliability_of(client));
    }
  }
}

TEST(FedRN, LoadTakesBackARound) {
  Federation federation({{"neighbours", 4}, {"warmup", 1}}, worked_example());
  Archive nothing;
  federation.method->save(nothing);
  EXPECT_TRUE(nothing.tensors.empty());
  federation.play(0);
  Archive before;
  federation.method->save(before);
  federation.replies[1].model = state_of({11});
  federation.replies[1].accuracy = 0.0;
  federation.play(1);
  federation.method->load(before);
  federation.play(1);
  const std::vector<float> sent = federation.neighbours_of(0);
  EXPECT_EQ(std::set<float>(sent.begin(), sent.end()), (std::set<float>{1, 2, 3, 4}));
  EXPECT_NEAR(federation.reliability_of(0)[1], 0.86748082, 1e-6);

  federation.method->load(nothing);
  EXPECT_TRUE(federation.method->findings().scores.at("expertise").empty());
  federation.play(1);
  EXPECT_TRUE(federation.neighbours_of(0).empty());
}

TEST(FedRN, HasTheDocumentedDefaults) {
  FedRN method;
  Params params;
  method.declare(params);
  const Json expected{{"neighbours", 1},     {"warmup", 100},          {"alpha", 0.6},
                      {"threshold", 0.5},    {"choice", "reliable"},   {"random_weights", "equal"},
                      {"fresh", false},      {"finetune", true},       {"finetune_epochs", 1},
                      {"own_model", "last"}, {"similarity", "logits"}, {"score_view", "augmented"},
                      {"score_batch", 50},   {"store_limit_mb", 2048}, {"store_folder", ""}};
  EXPECT_EQ(params.values(), expected);
  for (const Param& param : params.all()) {
    EXPECT_FALSE(param.source().empty()) << param.name();
  }
  EXPECT_EQ(fedrn_info().name, "fedrn");
  EXPECT_EQ(fedrn_info().group, "system");
  EXPECT_EQ(fedrn_info().truth, Truth::none);
  EXPECT_EQ(method.rounds({.rounds = 30}), 30);
}

TEST(FedRN, RefusesParametersOutOfRange) {
  for (const Json& table :
       {Json{{"neighbours", -1}}, Json{{"alpha", 1.5}}, Json{{"warmup", -1}},
        Json{{"threshold", 2}}, Json{{"choice", "best"}}, Json{{"similarity", "dot"}},
        Json{{"score_view", "both"}}, Json{{"score_batch", 0}}, Json{{"finetune_epochs", 0}},
        Json{{"store_limit_mb", -1}}, Json{{"random_weights", "none"}},
        Json{{"own_model", "best"}}}) {
    EXPECT_EQ(error_kind([&] { fedrn(table); }), ErrorKind::experiment) << table.dump();
  }
}

// spec: label-noise B.4 #18
TEST(FedRN, RefusesMoreNeighboursThanThereAreOthers) {
  const Setting setting{.rounds = 500, .clients = 4};
  EXPECT_NO_THROW(fedrn({{"neighbours", 3}})->check(setting));
  EXPECT_EQ(error_text([&] {
              fedrn({{"neighbours", 4}})->check(setting);
            }),
            "method.neighbours = 4: expected fewer than federation.clients, 4");
  EXPECT_EQ(error_kind([&] { fedrn({{"neighbours", 4}})->check(setting); }), ErrorKind::experiment);
  EXPECT_NO_THROW(fedrn({{"neighbours", 0}})->check({.rounds = 500, .clients = 1}));
}

TEST(FedRN, RefusesARunThatEndsWithItsWarmUp) {
  const Setting setting{.rounds = 60, .clients = 4};
  EXPECT_NO_THROW(fedrn({{"warmup", 59}})->check(setting));
  EXPECT_EQ(
      error_text([&] {
        fedrn({{"warmup", 60}})->check(setting);
      }),
      "method.warmup = 60: expected fewer than the 60 rounds of the run | a run that ends with "
      "its warm-up is FedAvg");
}

TEST(FedRN, RefusesAStoreFolderThatIsNone) {
  const Setting setting{.rounds = 500, .clients = 4};
  EXPECT_EQ(error_text([&] {
              fedrn({{"store_folder", "/no/such"}})->check(setting);
            }),
            "method.store_folder = \"/no/such\": expected a folder");
  EXPECT_NO_THROW(fedrn({{"store_folder", "/"}})->check(setting));
}

}  // namespace winnow::fedrn::fedrn_test
