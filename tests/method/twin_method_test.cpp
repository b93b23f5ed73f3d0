#include "winnow/method/twin_method.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "method/one_client.h"
#include "testing/simulation.h"
#include "winnow/base/random.h"
#include "winnow/method/base/fedavg/fedavg.h"
#include "winnow/method/trainer/coteaching/coteaching.h"
#include "winnow/method/trainer/dividemix/dividemix.h"

namespace winnow::twin_method_test {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Reply {
  State model;
  State second;
  std::uint32_t samples = 1;
};

// The server's side over clients whose replies are given; the second model starts as 9.
struct Federation {
  explicit Federation(const std::vector<Reply>& replies)
      : setting{.seed = 4,
                .rounds = 10,
                .clients = static_cast<std::int64_t>(replies.size()),
                .fraction = 1.0,
                .classes = 3},
        fleet(sizes(replies), [replies](std::int64_t client, const Message&) {
          const Reply& reply = replies[static_cast<std::size_t>(client)];
          return Message("train_done")
              .set("model", reply.model)
              .set("second", reply.second)
              .set("samples", reply.samples);
        }) {}

  static std::vector<std::int64_t> sizes(const std::vector<Reply>& replies) {
    std::vector<std::int64_t> sizes;
    for (const Reply& reply : replies) {
      sizes.push_back(reply.samples);
    }
    return sizes;
  }
  void play(Method& method, std::int64_t round = 0) {
    notes = Json::object();
    Server server{setting, fleet, global, notes};
    server.initial = [this](std::uint64_t seed) {
      seeds.push_back(seed);
      return state_of({9, 9}, {9}, {9});
    };
    method.play(round, server);
  }
  State sent(std::size_t order, const std::string& field) const {
    return fleet.asked.at(order).task.get<State>(field);
  }

  Setting setting;
  FakeFleet fleet;
  State global = state_of({1, 2}, {3}, {4});
  Json notes = Json::object();
  std::vector<std::uint64_t> seeds;
};

std::vector<Reply> two_replies() {
  return {{state_of({1, 0}, {0}, {10}), state_of({5, 1}, {2}, {3}), 100},
          {state_of({3, 8}, {4}, {11}), state_of({1, 5}, {6}, {3}), 300}};
}

TEST(TwinMethod, AveragesBothModelsSeparately) {
  Federation federation(two_replies());
  CoTeaching method;
  federation.play(method);
  EXPECT_EQ(values_of(federation.global), (std::vector<float>{2.5F, 6.0F, 3.0F, 11.0F}));
  federation.setting.layout = federation.global.layout;
  EXPECT_EQ(values_of(method.also_measured(federation.setting).at("second_accuracy")),
            (std::vector<float>{2, 4, 5, 3}));
  federation.play(method, 1);
  EXPECT_EQ(values_of(federation.sent(2, "model")), (std::vector<float>{2.5F, 6.0F, 3.0F, 11.0F}));
  EXPECT_EQ(values_of(federation.sent(2, "second")), (std::vector<float>{2, 4, 5, 3}));
  EXPECT_EQ(federation.notes["clients"], (Json{0, 1}));
}

TEST(TwinMethod, TheSecondModelStartsFromASeedOfItsOwn) {
  Federation federation(two_replies());
  CoTeaching method;
  federation.play(method);
  federation.play(method, 1);
  EXPECT_EQ(federation.seeds, (std::vector<std::uint64_t>{stream_key(4, "second model", {})}))
      << "once";
  EXPECT_EQ(values_of(federation.sent(0, "model")), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(values_of(federation.sent(0, "second")), (std::vector<float>{9, 9, 9, 9}));
}

// spec: baselines T6
TEST(TwinMethod, TransmitsExactlyTwoModelsEachWay) {
  const std::int64_t values = 4;
  for (const bool dividemix : {false, true}) {
    Federation federation(two_replies());
    const std::unique_ptr<Method> method =
        dividemix ? std::unique_ptr<Method>(make_with<DivideMix>()) : make_with<CoTeaching>();
    federation.play(*method);
    for (const Order& order : federation.fleet.asked) {
      EXPECT_NO_THROW(check(order.task, method->exchanges({})));
      EXPECT_EQ(order.task.bytes(), 4 + 2 * 4 * values);
    }
    for (const Message& reply : federation.fleet.replies) {
      EXPECT_NO_THROW(check(reply, method->exchanges({})));
      EXPECT_EQ(reply.bytes(), 2 * 4 * values + 4);
    }
  }
}

TEST(TwinMethod, RejectsAReplyWhenEitherModelIsNotFinite) {
  std::vector<Reply> replies = two_replies();
  replies.push_back({state_of({kNaN, 0}, {0}, {0}), state_of({1, 1}, {1}, {1}), 50});
  replies.push_back({state_of({1, 1}, {1}, {1}), state_of({0, kNaN}, {0}, {0}), 40});
  Federation federation(replies);
  CoTeaching method;
  federation.play(method);
  EXPECT_EQ(values_of(federation.global), (std::vector<float>{2.5F, 6.0F, 3.0F, 11.0F}));
  EXPECT_EQ(federation.notes["rejected"], (Json{2, 3}));
  federation.play(method, 1);
  EXPECT_EQ(values_of(federation.sent(4, "second")), (std::vector<float>{2, 4, 5, 3}));
}

TEST(TwinMethod, GivesUpWhenNoReplyIsFinite) {
  Federation federation({{state_of({kNaN, 0}, {0}, {0}), state_of({0, 0}, {0}, {0}), 5}});
  CoTeaching method;
  EXPECT_EQ(error_text([&] { federation.play(method, 3); }),
            "round 4: every reply held values that are not finite | the training diverged: lower "
            "train.lr");
}

TEST(TwinMethod, NeedsAWayToMakeAModel) {
  Federation federation(two_replies());
  Server server{federation.setting, federation.fleet, federation.global, federation.notes};
  CoTeaching method;
  EXPECT_EQ(error_kind([&] { method.play(0, server); }), ErrorKind::internal);
}

TEST(TwinMethod, SavesTheSecondModelAndForgetsItWhenNoneWasSaved) {
  Federation federation(two_replies());
  CoTeaching method;
  Archive before;
  method.save(before);
  EXPECT_TRUE(before.tensors.empty());
  federation.play(method);
  Archive archive;
  method.save(archive);
  CoTeaching resumed;
  resumed.load(archive);
  federation.play(resumed, 1);
  EXPECT_EQ(values_of(federation.sent(2, "second")), (std::vector<float>{2, 4, 5, 3}));
  EXPECT_EQ(federation.seeds.size(), 1U);
  resumed.load(before);
  federation.play(resumed, 0);
  EXPECT_EQ(values_of(federation.sent(4, "second")), (std::vector<float>{9, 9, 9, 9}));
}

// A whole small federation, some of its labels wrong.
struct Small {
  explicit Small(std::unique_ptr<Method> its_method)
      : data(tiny_data(60, 30, 16)),
        engine(data, deal(data, {9, 14, 6, 11}), net_info<NormNet>("norm"),
               {.epochs = 2, .batch_size = 4, .lr = 0.05}, {.lanes = 2, .augment = true, .seed = 5},
               nullptr),
        method(std::move(its_method)),
        global(engine.initial_state(5)) {
    setting = {.seed = 5, .rounds = 3, .clients = 4, .fraction = 0.75, .classes = 3};
    engine.serve(method->client_side(), method->exchanges({}));
  }
  std::vector<std::string> play(std::int64_t first = 0) {
    std::vector<std::string> hashes;
    for (std::int64_t round = first; round < 3; ++round) {
      Json notes = Json::object();
      Server server{setting, engine, global, notes};
      server.initial = [this](std::uint64_t seed) { return engine.initial_state(seed); };
      method->play(round, server);
      engine.commit();
      hashes.push_back(hash(global));
    }
    return hashes;
  }

  DataSet data;
  Simulation engine;
  std::unique_ptr<Method> method;
  Setting setting;
  State global;
};

// spec: baselines 21, T5
TEST(TwinMethod, TheFirstModelIsFedAvgsWhereNothingIsExchanged) {
  Small plain(std::make_unique<FedAvg>());
  const std::vector<std::string> expected = plain.play();
  Small keeping(make_with<CoTeaching>({{"forget_rate", 0.0}}));
  EXPECT_EQ(keeping.play(), expected);
  Small warm(make_with<DivideMix>({{"warmup", 9}}));
  EXPECT_EQ(warm.play(), expected);
  EXPECT_EQ(warm.engine.traffic().client_steps, 2 * plain.engine.traffic().client_steps);
  EXPECT_EQ(warm.engine.traffic().bytes_up - 4 * 9, 2 * (plain.engine.traffic().bytes_up - 4 * 9));
  EXPECT_TRUE(warm.engine.memories().empty());
}

TEST(TwinMethod, AResumedRunEndsInTheSameBits) {
  const auto make = [](bool dividemix) -> std::unique_ptr<Method> {
    if (dividemix) {
      return make_with<DivideMix>({{"warmup", 1}});
    }
    return make_with<CoTeaching>({{"ramp", 2}});
  };
  for (const bool dividemix : {false, true}) {
    Small calm(make(dividemix));
    const std::vector<std::string> expected = calm.play();
    Small stopped(make(dividemix));
    Json notes = Json::object();
    Server server{stopped.setting, stopped.engine, stopped.global, notes};
    server.initial = [&](std::uint64_t seed) { return stopped.engine.initial_state(seed); };
    stopped.method->play(0, server);
    stopped.engine.commit();
    Archive archive;
    stopped.method->save(archive);
    Small resumed(make(dividemix));
    resumed.method->load(archive);
    resumed.global = stopped.global;
    resumed.engine.restore(stopped.engine.memories());
    EXPECT_EQ(resumed.play(1), (std::vector<std::string>{expected[1], expected[2]}));
  }
}

}  // namespace winnow::twin_method_test
