#include "winnow/method/noisy_label/focus/focus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "method/base_rounds.h"
#include "method/small_federation.h"
#include "winnow/method/base_method.h"

namespace winnow::focus::focus_test {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::unique_ptr<Focus> focus(const Json& table = Json::object()) {
  auto method = std::make_unique<Focus>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

struct Client {
  State model;
  std::uint32_t samples = 1;
  double local = 0.0;   // loss of the global model on the client's samples
  double server = 0.0;  // loss of the client's model on the server's
};

// FOCUS on the server side over clients whose models and losses are given.
struct Federation {
  explicit Federation(std::vector<Client> members, const Json& table = Json::object(),
                      double fraction = 1.0)
      : clients(std::move(members)),
        setting{.seed = 4,
                .rounds = 10,
                .clients = static_cast<std::int64_t>(clients.size()),
                .fraction = fraction,
                .classes = 3,
                .validation = 100},
        fleet(sizes(),
              [this](std::int64_t client, const Message&) {
                const Client& own = clients[static_cast<std::size_t>(client)];
                return Message("train_done")
                    .set("model", own.model)
                    .set("samples", own.samples)
                    .set("local_loss", own.local);
              }),
        method(focus(table)) {}
  Federation(const Federation&) = delete;
  Federation& operator=(const Federation&) = delete;

  std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> sizes;
    for (const Client& client : clients) {
      sizes.push_back(client.samples);
    }
    return sizes;
  }
  std::vector<Score> validate(const std::vector<State>& models) {
    std::vector<Score> scores;
    for (const State& model : models) {
      const auto owner = std::ranges::find_if(clients, [&](const Client& client) {
        return client.model.flat.data_ptr() == model.flat.data_ptr();
      });
      scores.push_back({0, 100, 100 * owner->server});
      ++validations;
    }
    return scores;
  }
  void play(std::int64_t round = 0) {
    notes = Json::object();
    fleet.asked.clear();
    Server server{setting, fleet, global, notes,
                  [this](const std::vector<State>& models) { return validate(models); }};
    method->play(round, server);
    for (const Order& order : fleet.asked) {
      check(order.task, method->exchanges({}));
    }
    for (const Message& reply : fleet.replies) {
      check(reply, method->exchanges({}));
    }
  }
  std::vector<double> weights() const { return notes["weights"].get<std::vector<double>>(); }

  std::vector<Client> clients;
  Setting setting;
  FakeFleet fleet;
  std::unique_ptr<Focus> method;
  State global = state_of({0, 0, 0});
  Json notes = Json::object();
  int validations = 0;
};

// Unit vectors show the weights. spec: baselines 19
std::vector<Client> worked() {
  return {{state_of({1, 0, 0}), 5, .4, .5},
          {state_of({0, 1, 0}), 5, .5, .6},
          {state_of({0, 0, 1}), 5, 1.5, 2}};
}

TEST(Focus, WeighsModelsAsTheWorkedNumbersSay) {
  Federation federation(worked());
  const State before = federation.global;
  federation.play();
  EXPECT_THAT(values_of(federation.global),
              Pointwise(FloatNear(1e-6F), std::vector<float>{.468123F, .461065F, .070812F}));
  EXPECT_EQ(values_of(before), (std::vector<float>{0, 0, 0})) << "replaced, never changed";
  EXPECT_EQ(federation.notes["weighed"], (Json{0, 1, 2}));
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1, 2}));
  EXPECT_FALSE(federation.notes.contains("rejected"));
  EXPECT_EQ(federation.validations, 3);

  Federation mild(worked(), {{"alpha", 0.1}});
  mild.play();
  EXPECT_THAT(values_of(mild.global),
              Pointwise(FloatNear(1e-6F), std::vector<float>{.349267F, .346222F, .304510F}));
}

TEST(Focus, ReportsCredibilityAndMutualLossByClient) {
  Federation federation(worked());
  EXPECT_TRUE(federation.method->findings().scores.at("credibility").empty());
  federation.play();
  const Findings found = federation.method->findings();
  EXPECT_NEAR(found.scores.at("credibility").at(0), .936245, 1e-6);
  EXPECT_NEAR(found.scores.at("credibility").at(2), .141625, 1e-6);
  EXPECT_NEAR(found.scores.at("mutual_loss").at(1), 1.1, 1e-12);
  EXPECT_NEAR(found.scores.at("mutual_loss").at(2), 3.5, 1e-12);
  EXPECT_FALSE(found.flagged.has_value());
  EXPECT_TRUE(found.noise_levels.empty());
}

// spec: baselines T3
TEST(Focus, OfEqualLossesIsFedAvgBitForBit) {
  for (const Json& table : {Json{{"alpha", 1.0}}, Json{{"alpha", 0.0}}, Json{{"lagged", true}}}) {
    Federation federation({{state_of({1, -4}, {2}, {10}), 100, .25, .75},
                           {state_of({3, 7}, {9}, {11}), 300, .75, .25},
                           {state_of({.1F, 2}, {1}, {7}), 70, .5, .5}},
                          table);
    federation.play();
    const State focused = federation.global;
    FedAvg plain;
    federation.notes = Json::object();
    Server server{federation.setting, federation.fleet, federation.global, federation.notes};
    plain.play(0, server);
    EXPECT_EQ(hash(focused), hash(federation.global)) << table;
  }
}

// spec: baselines 19, T3: whatever the losses are.
TEST(Focus, WithAlphaZeroIsFedAvgBitForBit) {
  FedAvg fedavg;
  const std::vector<std::string> expected = round_hashes(fedavg);
  EXPECT_EQ(round_hashes(*focus({{"alpha", 0.0}})), expected);
  EXPECT_NE(round_hashes(*focus()), expected);
}

TEST(Focus, NotesClientsInTheOrderOfTheirIds) {
  std::vector<Client> members = worked();
  members[2].samples = 9;  // its reply comes first
  Federation federation(members);
  federation.play();
  EXPECT_EQ(federation.notes["weighed"], (Json{0, 1, 2}));
  const std::vector<float> weights = values_of(federation.global);
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_NEAR(federation.weights()[k], weights[k], 1e-6) << k;
  }
}

// spec: baselines T6
TEST(Focus, CostsOneNumberMoreThanFedAvg) {
  Federation federation(worked());
  federation.play();
  EXPECT_EQ(federation.fleet.traffic().bytes_down, 3 * (4 + 4 * 3));
  EXPECT_EQ(federation.fleet.traffic().bytes_up, 3 * (4 * 3 + 4 + 8));
  ASSERT_EQ(federation.fleet.asked.size(), 3U);
  EXPECT_EQ(federation.fleet.asked[0].task.kind(), "train");
  EXPECT_EQ(federation.fleet.replies[0].kind(), "train_done");
}

TEST(Focus, RejectsRepliesThatAreNotFinite) {
  std::vector<Client> members = worked();
  const auto bad = static_cast<float>(kNaN);
  members.push_back({state_of({9, 9, bad}), 5, .4, .4});
  members.push_back({state_of({9, 9, 8}), 5, kNaN, .4});
  members.push_back({state_of({9, 9, 7}), 5, kInfinity, .4});
  members.push_back({state_of({9, 9, 6}), 5, -1.0, .4});
  members.push_back({state_of({9, 9, 5}), 5, .4, kNaN});
  members.push_back({state_of({9, 9, 4}), 5, .4, kInfinity});
  Federation federation(members);
  federation.play();
  EXPECT_THAT(values_of(federation.global),
              Pointwise(FloatNear(1e-6F), std::vector<float>{.468123F, .461065F, .070812F}));
  EXPECT_EQ(federation.notes["rejected"], (Json{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(federation.notes["weighed"], (Json{0, 1, 2}));
  EXPECT_EQ(federation.validations, 5) << "what cannot be used is not measured";
  EXPECT_FALSE(federation.method->findings().scores.at("mutual_loss").contains(4));
}

TEST(Focus, GivesUpWhenEveryReplyIsNotFinite) {
  const std::string text =
      "round 8: every reply held values that are not finite | the training diverged: lower "
      "train.lr";
  Federation unsent({{state_of({1}), 5, kNaN, .4}, {state_of({2}), 5, kNaN, .4}});
  EXPECT_EQ(error_text([&] { unsent.play(7); }), text);
  EXPECT_EQ(unsent.validations, 0);
  Federation unmeasured({{state_of({1}), 5, .4, kNaN}, {state_of({2}), 5, .4, kNaN}});
  EXPECT_EQ(error_text([&] { unmeasured.play(7); }), text);
}

TEST(Focus, TakesTheModelOfASingleClientAsItIs) {
  Federation federation({{state_of({3, 4, 5}), 8, 9, 9}});
  federation.play();
  EXPECT_EQ(values_of(federation.global), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(federation.method->findings().scores.at("credibility").at(0), 0.0);
}

TEST(Focus, LeavesClientsWithoutSamplesOut) {
  std::vector<Client> members = worked();
  members.push_back({state_of({9, 9, 9}), 0, 0, 0});
  Federation federation(members);
  federation.play();
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1, 2}));
}

TEST(Focus, LaggedWeighsByTheLossesOfTheRoundBefore) {
  Federation federation(worked(), {{"lagged", true}});
  federation.play(0);
  EXPECT_THAT(values_of(federation.global), Pointwise(FloatNear(1e-6F), {1 / 3., 1 / 3., 1 / 3.}))
      << "nobody is known yet";
  std::swap(federation.clients[0].local, federation.clients[2].local);
  std::swap(federation.clients[0].server, federation.clients[2].server);
  federation.play(1);
  EXPECT_THAT(values_of(federation.global),
              Pointwise(FloatNear(1e-6F), std::vector<float>{.468123F, .461065F, .070812F}));
  EXPECT_NEAR(federation.method->findings().scores.at("credibility").at(0), .141625, 1e-6)
      << "what is known now";
  federation.play(2);
  EXPECT_NEAR(federation.weights()[0], .070812, 1e-6);
}

TEST(Focus, ResumesBetweenRounds) {
  for (const bool lagged : {false, true}) {
    const Json table{{"lagged", lagged}};
    Federation whole(worked(), table, 0.7);
    Federation first(worked(), table, 0.7);
    for (std::int64_t round = 0; round < 6; ++round) {
      whole.play(round);
      first.play(round);
      Archive archive;
      first.method->save(archive);
      archive = out_of_a_file(archive);
      archive.values = Json::parse(archive.values.dump());
      first.method = focus(table);
      first.method->load(archive);
      EXPECT_EQ(hash(first.global), hash(whole.global)) << round;
      EXPECT_EQ(first.method->findings().scores, whole.method->findings().scores);
    }
  }
}

TEST(Focus, LoadTakesBackWhatWasPlayed) {
  Federation federation(worked(), {{"lagged", true}});
  federation.play();
  federation.method->load({});
  EXPECT_TRUE(federation.method->findings().scores.at("credibility").empty());
  federation.play();
  EXPECT_NEAR(federation.weights()[2], 1 / 3., 1e-12);
}

TEST(Focus, RefusesARunWithoutAValidationSet) {
  EXPECT_EQ(error_text([] { focus()->check({.validation = 0}); }),
            "focus needs a validation set on the server | add a [validation] table, for example "
            "source = \"split\", share = 0.05");
  EXPECT_EQ(error_kind([] { focus()->check({.validation = 0}); }), ErrorKind::experiment);
  EXPECT_NO_THROW(focus()->check({.validation = 1}));
  EXPECT_THAT(error_text([] { focus({{"alpha", -1}}); }), HasSubstr("method.alpha"));
}

TEST(Focus, IsNoBaseForOtherMethods) {
  const MethodInfo info = focus_info();
  EXPECT_EQ(info.name, "focus");
  EXPECT_EQ(info.group, "noisy-label");
  EXPECT_EQ(dynamic_cast<BaseMethod*>(info.make().get()), nullptr);
}

TEST(FocusClient, TrainsAsFedAvgAndReportsTheLossOfTheReceivedModel) {
  const DataSet data = tiny_data();
  const Feed feed(data.train.images, data.normalisation, 0, at::kCPU);
  ClientData held = deal(data, {12}).front();
  held.given[3] = (held.given[3] + 1) % 3;
  ClientMemory memory;
  const TrainOptions options{.epochs = 2, .batch_size = 5, .eval_batch = 5};
  Lane lane(make_net<NormNet>(data), feed, true);
  const State start = NormNet(shape_of(data)).weights().initial(1);
  const auto method = focus();
  const Message task = task_of(FedAvg(), 3, 7, start);

  ClientContext context(7, held, memory, lane, options, 5);
  const Message reply = method->client_side()->handle(task, context);
  check(reply, method->exchanges({}));
  EXPECT_EQ(context.steps(), 6);
  EXPECT_TRUE(memory.empty());

  lane.scorer().load(start);
  const Score score = lane.scorer().score(feed, {held.samples, held.given}, 12);
  EXPECT_NEAR(reply.get<double>("local_loss"), score.mean_loss(), 1e-6);
  ClientContext again(7, held, memory, lane, options, 5);
  const Message plain = FedAvg().client_side()->handle(task, again);
  EXPECT_EQ(hash(reply.get<State>("model")), hash(plain.get<State>("model")));
  EXPECT_EQ(reply.bytes(), plain.bytes() + 8);
}

TEST(FocusClient, MeasuresTheLabelsInUse) {
  const DataSet data = tiny_data();
  const Feed feed(data.train.images, data.normalisation, 0, at::kCPU);
  ClientData held = deal(data, {12}).front();
  Lane lane(make_net<LinearNet>(data), feed, false);
  // A model that is sure of class 0, whatever it sees.
  State start = State::zeros(lane.layout());
  start.view(*start.layout->find("fc.bias")).copy_(at::tensor({2.0F, 0.0F, 0.0F}));
  std::vector<double> losses;
  for (const std::int64_t label : {0, 1}) {
    ClientMemory memory;
    memory.trace.labels = Labels(12, label);
    ClientContext context(7, held, memory, lane, {.epochs = 1}, 5);
    losses.push_back(focus()
                         ->client_side()
                         ->handle(task_of(FedAvg(), 0, 7, start), context)
                         .get<double>("local_loss"));
  }
  EXPECT_THAT(losses,
              ElementsAre(testing::DoubleNear(.239545, 1e-5), testing::DoubleNear(2.239545, 1e-5)));
}

}  // namespace winnow::focus::focus_test
