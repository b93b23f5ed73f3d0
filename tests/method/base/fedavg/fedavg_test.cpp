#include "winnow/method/base/fedavg/fedavg.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <numeric>

#include "method/base_rounds.h"
#include "testing/support.h"
#include "winnow/federation/selection.h"

namespace winnow::fedavg_test {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Reply {
  State model;
  std::uint32_t samples = 1;
};

// FedAvg on the server side over clients whose replies are given.
struct Federation {
  Federation(State start, const std::vector<Reply>& replies, double fraction = 1.0)
      : setting{.seed = 4,
                .rounds = 10,
                .clients = static_cast<std::int64_t>(replies.size()),
                .fraction = fraction,
                .classes = 3},
        fleet(
            sizes(replies),
            [replies](std::int64_t client, const Message&) {
              const Reply& reply = replies[static_cast<std::size_t>(client)];
              return Message("train_done").set("model", reply.model).set("samples", reply.samples);
            }),
        global(std::move(start)) {}

  static std::vector<std::int64_t> sizes(const std::vector<Reply>& replies) {
    std::vector<std::int64_t> sizes;
    for (const Reply& reply : replies) {
      sizes.push_back(reply.samples);
    }
    return sizes;
  }
  void play(std::int64_t round = 0) {
    notes = Json::object();
    Server server{setting, fleet, global, notes};
    method.play(round, server);
  }

  Setting setting;
  FakeFleet fleet;
  State global;
  Json notes = Json::object();
  FedAvg method;
};

// spec: baselines 1
TEST(FedAvg, AveragesByTheNumberOfSamples) {
  const State start = state_of({9, 9}, {9}, {9});
  Federation federation(start,
                        {{state_of({1, 0}, {0}, {10}), 100}, {state_of({3, 8}, {4}, {11}), 300}});
  federation.play();
  EXPECT_EQ(values_of(federation.global), (std::vector<float>{2.5F, 6.0F, 3.0F, 11.0F}));
  EXPECT_EQ(values_of(start), (std::vector<float>{9, 9, 9, 9})) << "replaced, never changed";
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1}));
  EXPECT_FALSE(federation.notes.contains("rejected"));
}

TEST(FedAvg, CanWeighAllClientsTheSame) {
  Federation federation(state_of({9, 9}, {9}, {9}),
                        {{state_of({1, 0}, {0}, {10}), 100}, {state_of({3, 8}, {4}, {12}), 300}});
  Params params;
  federation.method.declare(params);
  params.read({{"weighting", "equal"}}, "method");
  federation.play();
  EXPECT_EQ(values_of(federation.global), (std::vector<float>{2.0F, 4.0F, 2.0F, 11.0F}));
}

// A wrapper's factor is no count of samples: it still weighs.
TEST(FedAvg, WeighsByAWrappersFactorEitherWay) {
  for (const auto& [weighting, expected] : {std::pair{"samples", 2.5F}, {"equal", 1.5F}}) {
    FedAvg method;
    Params params;
    method.declare(params);
    params.read({{"weighting", weighting}}, "method");
    const auto upload = [](float value, double samples, double factor) {
      const Message reply = Message("train_done").set("model", state_of({value}));
      return Upload{.client = 0, .reply = reply, .samples = samples, .factor = factor};
    };
    const State next = fuse(method, state_of({0}), {upload(1, 10, 0.75), upload(3, 90, 0.25)});
    EXPECT_FLOAT_EQ(values_of(next).front(), expected) << weighting;
  }
}

TEST(FedAvg, SendsTheGlobalModelAndTheRound) {
  Federation federation(state_of({1, 2, 3}, {4}, {5}),
                        {{state_of({0, 0, 0}, {0}, {0}), 2}, {state_of({0, 0, 0}, {0}, {0}), 8}});
  const State sent = federation.global;
  federation.play(6);
  ASSERT_EQ(federation.fleet.asked.size(), 2U);
  EXPECT_EQ(federation.fleet.asked[0].client, 1) << "the larger client is folded first";
  EXPECT_EQ(federation.fleet.asked[1].client, 0);
  for (const Order& order : federation.fleet.asked) {
    EXPECT_EQ(order.task.kind(), "train");
    EXPECT_EQ(order.task.get<std::uint32_t>("round"), 6U);
    EXPECT_EQ(order.task.get<State>("model").flat.data_ptr(), sent.flat.data_ptr());
    EXPECT_NO_THROW(check(order.task, federation.method.exchanges({})));
  }
  for (const Message& reply : federation.fleet.replies) {
    EXPECT_NO_THROW(check(reply, federation.method.exchanges({})));
  }
}

TEST(FedAvg, CostsOneModelAndANumberEachWay) {
  // Three parameters, one buffer and one counter: P = 5 values.
  const State model = state_of({1, 2, 3}, {4}, {5});
  Federation federation(model, {{model, 2}, {model, 8}, {model, 1}});
  federation.play();
  EXPECT_EQ(federation.fleet.asked[0].task.bytes(), 4 + 4 * 5);
  EXPECT_EQ(federation.fleet.replies[0].bytes(), 4 * 5 + 4);
  EXPECT_EQ(federation.fleet.traffic().bytes_down, 3 * 24);
  EXPECT_EQ(federation.fleet.traffic().bytes_up, 3 * 24);
}

TEST(FedAvg, AsksTheSelectedClientsOnly) {
  const State model = state_of({1});
  Federation federation(model, std::vector<Reply>(20, {model, 5}), 0.25);
  std::map<std::int64_t, int> times;
  for (std::int64_t round = 0; round < 8; ++round) {
    federation.fleet.asked.clear();
    federation.play(round);
    std::vector<std::int64_t> everybody(20);
    std::iota(everybody.begin(), everybody.end(), std::int64_t{0});
    const std::vector<std::int64_t> expected = select_uniform(everybody, 5, 4, round);
    std::vector<std::int64_t> asked;
    for (const Order& order : federation.fleet.asked) {
      asked.push_back(order.client);
      ++times[order.client];
    }
    EXPECT_EQ(asked, expected);  // equal sizes: by id
    EXPECT_EQ(federation.notes["clients"], Json(expected));
  }
  EXPECT_GT(times.size(), 5U) << "the selection changes from round to round";
}

TEST(FedAvg, RejectsAReplyThatIsNotFinite) {
  Federation federation(state_of({0, 0}),
                        {{state_of({1, 0}), 100},
                         {state_of({5, kNaN}), 900},
                         {state_of({3, 8}), 300},
                         {state_of({std::numeric_limits<float>::infinity(), 0}), 1}});
  federation.play();
  EXPECT_EQ(values_of(federation.global), (std::vector<float>{2.5F, 6.0F}));
  EXPECT_EQ(federation.notes["rejected"], (Json{1, 3}));
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1, 2, 3}));
}

TEST(FedAvg, GivesUpWhenEveryReplyIsNotFinite) {
  const State start = state_of({1, 2});
  Federation federation(start, {{state_of({kNaN, 0}), 10}, {state_of({0, kNaN}), 20}});
  EXPECT_EQ(error_text([&] { federation.play(7); }),
            "round 8: every reply held values that are not finite | the training diverged: lower "
            "train.lr");
  EXPECT_EQ(error_kind([&] { federation.play(7); }), ErrorKind::run);
  EXPECT_EQ(hash(federation.global), hash(start));
}

TEST(FedAvg, NeverSelectsAClientWithoutSamples) {
  Federation federation(
      state_of({1}),
      {{state_of({9}), 0}, {state_of({2}), 5}, {state_of({9}), 0}, {state_of({4}), 5}});
  federation.play();
  EXPECT_EQ(federation.notes["clients"], (Json{1, 3}));
  EXPECT_EQ(values_of(federation.global), std::vector<float>{3.0F});
}

TEST(FedAvg, RefusesAFederationWithoutSamples) {
  Federation federation(state_of({1}), {{state_of({2}), 0}, {state_of({3}), 0}});
  EXPECT_EQ(error_text([&] { federation.play(); }), "no client holds a sample");
}

TEST(FedAvg, DoesNotBlameTheLearningRateWhenRepliesWeighNothing) {
  FakeFleet fleet({5, 5}, [](std::int64_t, const Message&) {
    return Message("train_done").set("model", state_of({2})).set("samples", std::uint32_t{0});
  });
  const Setting setting{.seed = 4, .rounds = 1, .clients = 2, .fraction = 1.0, .classes = 3};
  State global = state_of({1});
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  FedAvg method;
  EXPECT_EQ(error_text([&] { method.play(0, server); }),
            "no client contributed to this round | lower the noise or raise federation.fraction");
}

TEST(FedAvg, ClientTrainsTheModelItWasSent) {
  const DataSet data = tiny_data();
  const Feed feed(data.train.images, data.normalisation, 0, at::kCPU);
  Lane lane(make_net<TwoLayerNet>(data), feed, false);
  const ClientData held = deal(data, {12}).front();
  ClientMemory memory;
  const TrainOptions options{.epochs = 2, .batch_size = 5};
  ClientContext context(7, held, memory, lane, options, 5);
  const State start = TwoLayerNet(shape_of(data)).weights().initial(1);

  const FedAvg method;
  const Message reply = method.client_side()->handle(
      Message("train").set("round", std::uint32_t{3}).set("model", start), context);
  EXPECT_NO_THROW(check(reply, method.exchanges({})));
  EXPECT_EQ(reply.kind(), "train_done");
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 12U);
  EXPECT_EQ(context.steps(), 6);
  EXPECT_EQ(
      hash(reply.get<State>("model")),
      hash(lane.trainer().train(start, {held.samples, held.given}, options, {}, {5, 3, 7}).state));
  EXPECT_TRUE(memory.empty());
}

TEST(FedAvgAbsences, ThoseWhoAnswerMakeTheModel) {
  Federation federation(state_of({7}),
                        {{state_of({1}), 10}, {state_of({3}), 30}, {state_of({9}), 20}});
  federation.fleet.away = [](std::int64_t client, const Message&) { return client == 2; };
  federation.play(0);
  EXPECT_EQ(values_of(federation.global), std::vector<float>{2.5F});
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1, 2}));
  EXPECT_FALSE(federation.notes.contains("standstill"));
}

TEST(FedAvgAbsences, NobodyLeavesTheModelAsItIs) {
  Federation federation(state_of({7}), {{state_of({1}), 10}, {state_of({3}), 30}});
  federation.fleet.away = [](std::int64_t, const Message&) { return true; };
  const std::string before = hash(federation.global);
  federation.play(0);
  EXPECT_EQ(hash(federation.global), before);
  EXPECT_EQ(federation.notes["standstill"], "too few clients answered: the model stays as it is");
}

TEST(FedAvgAbsences, ADivergedReplyBesideAnAbsenceIsNoReasonToGiveUp) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Federation federation(state_of({7}), {{state_of({nan}), 10}, {state_of({3}), 30}});
  federation.fleet.away = [](std::int64_t client, const Message&) { return client == 1; };
  const std::string before = hash(federation.global);
  federation.play(0);
  EXPECT_EQ(hash(federation.global), before);
  EXPECT_EQ(federation.notes["rejected"], Json::array({0}));
}

}  // namespace winnow::fedavg_test
