#include "testing/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "testing/support.h"
#include "winnow/method/base/fedavg/fedavg.h"

// Present only where LibTorch stands on OpenMP.
extern "C" int omp_get_max_threads() __attribute__((weak));

namespace winnow::local_engine_test {

const std::vector<Exchange>& ping_exchanges() {
  static const std::vector<Exchange> exchanges{
      {"ping", {}, "pong", {field::whole("value", "a number")}}};
  return exchanges;
}

std::vector<Order> pings(const std::vector<std::int64_t>& clients) {
  std::vector<Order> orders;
  for (const std::int64_t client : clients) {
    orders.push_back({client, Message("ping")});
  }
  return orders;
}

Message pong(std::int64_t value) {
  return Message("pong").set("value", static_cast<std::uint32_t>(value));
}

// Six clients of different sizes that do what a script says.
struct Scripted {
  explicit Scripted(ScriptedClient::Script script, std::int64_t lanes = 2,
                    const std::atomic<bool>* stop = nullptr)
      : data(tiny_data()),
        engine(data, deal(data, {4, 9, 0, 9, 20, 1}), net_info<TwoLayerNet>("two_layers"),
               {.epochs = 2, .batch_size = 5}, {.lanes = lanes, .seed = 8}, stop) {
    engine.serve(std::make_unique<ScriptedClient>(std::move(script)), ping_exchanges());
  }

  // Client and value of each reply, in the order of folding.
  std::vector<std::pair<std::int64_t, std::uint32_t>> ask(const std::vector<Order>& orders) {
    std::vector<std::pair<std::int64_t, std::uint32_t>> replies;
    std::ignore = engine.ask(orders, [&](std::int64_t client, const Message& reply) {
      replies.emplace_back(client, reply.get<std::uint32_t>("value"));
    });
    return replies;
  }

  DataSet data;
  Simulation engine;
};

using Replies = std::vector<std::pair<std::int64_t, std::uint32_t>>;

// Remembers how often a client was asked and answers with that number.
Message count_tasks(const Message& /*task*/, ClientContext& context) {
  Json& times = context.archive().values["times"];
  times = times.is_null() ? 1 : times.get<int>() + 1;
  return pong(times.get<int>());
}

struct Played {
  std::vector<std::string> hashes;  // after every round
  std::vector<std::int64_t> correct;
  std::vector<double> loss;

  bool operator==(const Played&) const = default;
};

Played play_fedavg(const NetInfo& net, const DataSet& data, std::int64_t lanes, bool augment) {
  Simulation engine(data, deal(data, {9, 3, 14, 6, 0, 11, 9}), net,
                    {.epochs = 2, .batch_size = 4, .lr = 0.05, .eval_batch = 3},
                    {.lanes = lanes, .augment = augment, .seed = 5}, nullptr);
  FedAvg method;
  engine.serve(method.client_side(), method.exchanges({}));
  const Setting setting{
      .seed = 5, .rounds = 3, .clients = 7, .fraction = 0.75, .classes = data.classes};
  State global = engine.initial_state(5);
  Played played;
  for (std::int64_t round = 0; round < 3; ++round) {
    Json notes = Json::object();
    Server server{setting, engine, global, notes};
    method.play(round, server);
    const Score score = engine.evaluate(global);
    played.hashes.push_back(hash(global));
    played.correct.push_back(score.correct);
    played.loss.push_back(score.loss_sum);
    EXPECT_EQ(score.count, data.test.size());
  }
  return played;
}

class LocalEngineNets : public testing::TestWithParam<NetInfo> {};

// The second promise of the design: same seed, same bits, whatever the number of lanes.
TEST_P(LocalEngineNets, GiveTheSameBitsForAnyNumberOfLanes) {
  const DataSet data = tiny_data(60, 50, 16);
  std::vector<Played> by_augmentation;
  for (const bool augment : {false, true}) {
    const Played one = play_fedavg(GetParam(), data, 1, augment);
    EXPECT_EQ(play_fedavg(GetParam(), data, 2, augment), one) << "augment " << augment;
    EXPECT_EQ(play_fedavg(GetParam(), data, 5, augment), one) << "augment " << augment;
    EXPECT_NE(one.hashes[0], one.hashes[1]);
    EXPECT_NE(one.hashes[1], one.hashes[2]);
    by_augmentation.push_back(one);
  }
  EXPECT_NE(by_augmentation[0].hashes[0], by_augmentation[1].hashes[0]);
}

INSTANTIATE_TEST_SUITE_P(Zoo, LocalEngineNets,
                         testing::Values(builtin_networks().find("lenet5"),
                                         builtin_networks().find("cnn4"),
                                         builtin_networks().find("cnn2"), net_info<NormNet>("norm"),
                                         net_info<TwoLayerNet>("two_layers")),
                         [](const auto& info) { return info.param.name; });

TEST(LocalEngine, EvaluatesLikeOneLaneDoes) {
  const DataSet data = tiny_data(60, 50);
  const NetInfo net = net_info<NormNet>("norm");
  const Feed feed(data.test.images, data.normalisation, 0, at::kCPU);
  Lane lane(make_net(net, data), feed, false);
  Simulation engine(data, deal(data, {60}), net, {.eval_batch = 3}, {.lanes = 3, .seed = 5},
                    nullptr);
  const State model = engine.initial_state(3);
  lane.scorer().load(model);
  std::vector<std::int64_t> samples(50);
  std::iota(samples.begin(), samples.end(), std::int64_t{0});
  const Score expected = lane.scorer().score(feed, {samples, data.test.labels}, 50);
  const Score score = engine.evaluate(model);
  EXPECT_EQ(score.count, 50);
  EXPECT_EQ(score.correct, expected.correct);
  EXPECT_NEAR(score.loss_sum, expected.loss_sum, 1e-3);
}

TEST(LocalEngine, KnowsItsClientsAndItsModel) {
  Scripted scripted(count_tasks, 3);
  const Simulation& engine = scripted.engine;
  EXPECT_EQ(engine.size(), 6);
  EXPECT_EQ(engine.crew.lanes(), 3);
  EXPECT_EQ(engine.samples(0), 4);
  EXPECT_EQ(engine.samples(2), 0);
  EXPECT_EQ(engine.samples(4), 20);
  EXPECT_EQ(hash(engine.initial_state(3)),
            hash(TwoLayerNet(shape_of(scripted.data)).weights().initial(3)));
  EXPECT_EQ(*engine.crew.layout(), *engine.initial_state(3).layout);
}

TEST(LocalEngine, FoldsInTheFixedOrderWhoeverAnswersFirst) {
  for (const std::int64_t lanes : {1, 2, 5}) {
    Scripted scripted(
        [](const Message&, ClientContext& context) {
          // The largest clients answer last.
          std::this_thread::sleep_for(std::chrono::milliseconds(2 * context.size()));
          return pong(context.id());
        },
        lanes);
    const Replies expected{{4, 4}, {1, 1}, {3, 3}, {0, 0}, {5, 5}, {2, 2}};
    EXPECT_EQ(scripted.ask(pings({0, 1, 2, 3, 4, 5})), expected);
    EXPECT_EQ(scripted.ask(pings({5, 2, 4, 0, 3, 1})), expected);
  }
}

TEST(LocalEngine, GivesAHandlerItsClientAndTheTask) {
  const DataSet data = tiny_data();
  const std::vector<ClientData> held = deal(data, {4, 9});
  Simulation engine(data, held, net_info<TwoLayerNet>("two_layers"), {.epochs = 7},
                    {.lanes = 1, .seed = 8}, nullptr);
  engine.serve(std::make_unique<ScriptedClient>([&](const Message& task, ClientContext& context) {
                 const ClientData& own = held[static_cast<std::size_t>(context.id())];
                 EXPECT_EQ(task.kind(), "ping");
                 EXPECT_EQ(context.seed(), 8U);
                 EXPECT_EQ(context.options().epochs, 7);
                 EXPECT_TRUE(std::ranges::equal(context.local_set().samples, own.samples));
                 EXPECT_TRUE(std::ranges::equal(context.local_set().labels, own.given));
                 return pong(context.size());
               }),
               ping_exchanges());
  std::vector<std::int64_t> sizes;
  std::ignore = engine.ask(pings({0, 1}), [&](std::int64_t, const Message& reply) {
    sizes.push_back(reply.get<std::uint32_t>("value"));
  });
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{9, 4}));
}

TEST(LocalEngine, FoldsOnTheCallersThread) {
  Scripted scripted(count_tasks);
  const std::thread::id caller = std::this_thread::get_id();
  std::ignore = scripted.engine.ask(pings({0, 1, 3}), [&](std::int64_t, const Message&) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
}

TEST(LocalEngine, CountsTraffic) {
  const DataSet data = tiny_data();
  Simulation engine(data, deal(data, {10, 25, 0}), net_info<TwoLayerNet>("two_layers"),
                    {.epochs = 2, .batch_size = 10}, {.lanes = 2, .seed = 5}, nullptr);
  FedAvg method;
  engine.serve(method.client_side(), method.exchanges({}));
  const State global = engine.initial_state(1);
  const auto ask = [&](const std::vector<std::int64_t>& clients) {
    std::vector<Order> orders;
    for (const std::int64_t client : clients) {
      orders.push_back(
          {client, Message("train").set("round", std::uint32_t{0}).set("model", global)});
    }
    std::ignore = engine.ask(orders, [](std::int64_t, const Message&) {});
  };
  const std::int64_t model = 4 * global.layout->total();
  EXPECT_EQ(engine.traffic().participations, 0);
  ask({0, 1, 2});
  EXPECT_EQ(engine.traffic().participations, 2) << "a client without samples does not train";
  EXPECT_EQ(engine.traffic().bytes_down, 3 * (4 + model));
  EXPECT_EQ(engine.traffic().bytes_up, 3 * (model + 4));
  EXPECT_EQ(engine.traffic().client_steps, 2 * (1 + 3));
  const std::int64_t trained = engine.traffic().passes.backward;
  EXPECT_GT(trained, 0);
  EXPECT_EQ(engine.traffic().passes.forward, trained);
  engine.evaluate(global);
  EXPECT_EQ(engine.traffic().passes.forward, trained) << "only what clients do counts";
  EXPECT_GT(engine.traffic().train_seconds, 0.0);
  ask({1});
  EXPECT_EQ(engine.traffic().participations, 3);
  EXPECT_EQ(engine.traffic().bytes_up, 4 * (model + 4));
  EXPECT_EQ(engine.traffic().client_steps, 2 * (1 + 3) + 6);

  engine.restore(Traffic{.participations = 100, .bytes_up = 7});
  ask({0});
  EXPECT_EQ(engine.traffic().participations, 101);
  EXPECT_EQ(engine.traffic().bytes_up, 7 + model + 4);
}

TEST(LocalEngine, TheTrainingLossIsOverAllSamplesSinceTheLastCommit) {
  const DataSet data = tiny_data();
  const auto after = [&](std::int64_t lanes, const std::function<void(Simulation&)>& then) {
    Simulation engine(data, deal(data, {10, 25, 0}), net_info<TwoLayerNet>("two_layers"),
                      {.epochs = 2, .batch_size = 10}, {.lanes = lanes, .seed = 5}, nullptr);
    FedAvg method;
    engine.serve(method.client_side(), method.exchanges({}));
    std::vector<Order> orders;
    for (const std::int64_t client : {0, 1, 2}) {
      orders.push_back(
          {client,
           Message("train").set("round", std::uint32_t{0}).set("model", engine.initial_state(1))});
    }
    std::ignore = engine.ask(orders, [](std::int64_t, const Message&) {});
    then(engine);
    return engine.training_loss();
  };
  const TrainingLoss loss = after(1, [](Simulation&) {});
  EXPECT_EQ(loss.samples, 2 * (10 + 25));
  EXPECT_GT(loss.mean().value(), 0.0);
  EXPECT_EQ(after(3, [](Simulation&) {}).sum, loss.sum) << "whatever the number of lanes";
  EXPECT_EQ(after(1, [](Simulation& engine) { engine.commit(); }).mean(), std::nullopt);
  EXPECT_EQ(after(1, [](Simulation& engine) { engine.rollback(); }).mean(), std::nullopt);
}

TEST(LocalEngine, RemembersForEachClientApart) {
  Scripted scripted(count_tasks);
  EXPECT_EQ(scripted.ask(pings({0, 4})), (Replies{{4, 1}, {0, 1}}));
  EXPECT_EQ(scripted.ask(pings({0, 1})), (Replies{{1, 1}, {0, 2}}));
  scripted.engine.commit();
  EXPECT_EQ(scripted.ask(pings({0, 1, 4})), (Replies{{4, 2}, {1, 2}, {0, 3}}));
}

TEST(LocalEngine, RollbackTakesBackWhatIsNotCommitted) {
  Scripted scripted(count_tasks);
  EXPECT_TRUE(scripted.engine.memories().empty());
  scripted.ask(pings({0, 1}));
  EXPECT_TRUE(scripted.engine.memories().empty()) << "pending is not committed";
  scripted.engine.commit();
  ASSERT_EQ(scripted.engine.memories().size(), 2U);
  EXPECT_EQ(scripted.engine.memories().at(0).own.values["times"], Json(1));

  EXPECT_EQ(scripted.ask(pings({0, 3})), (Replies{{3, 1}, {0, 2}}));
  EXPECT_EQ(scripted.ask(pings({0, 3})), (Replies{{3, 2}, {0, 3}}));
  scripted.engine.rollback();
  EXPECT_EQ(scripted.engine.memories().size(), 2U);
  EXPECT_EQ(scripted.ask(pings({0, 3})), (Replies{{3, 1}, {0, 2}}));
  scripted.engine.commit();
  EXPECT_EQ(scripted.engine.memories().size(), 3U);
  EXPECT_EQ(scripted.engine.memories().at(0).own.values["times"], Json(2));
}

TEST(LocalEngine, RestoresMemoryAndForgetsThePending) {
  Scripted first(count_tasks);
  first.ask(pings({0, 1}));
  first.engine.commit();
  Scripted second(count_tasks);
  second.ask(pings({0, 3}));
  second.engine.restore(first.engine.memories());
  EXPECT_EQ(second.ask(pings({0, 1, 3})), (Replies{{1, 2}, {3, 1}, {0, 2}}));
}

TEST(LocalEngine, RefusesAMemoryThatDoesNotFit) {
  Scripted scripted(count_tasks);
  const auto refusal = [&](std::int64_t client, const ClientMemory& memory) {
    return error_text([&] { scripted.engine.restore({{client, memory}}); });
  };
  const std::int64_t samples = scripted.engine.samples(0);
  const auto size = static_cast<std::size_t>(samples);
  EXPECT_EQ(refusal(0, {.trace = {.labels = Labels(size, 2)}}), "no error");
  EXPECT_EQ(refusal(0, {.trace = {.labels = Labels(size, 3)}}),
            "client 0: it has the label 3, expected 0 to 2");
  EXPECT_EQ(refusal(0, {.trace = {.labels = Labels(size, -1)}}),
            "client 0: it has the label -1, expected 0 to 2");
  EXPECT_EQ(refusal(0, {.trace = {.labels = Labels(size - 1, 0)}}),
            "client 0: it has " + std::to_string(samples - 1) +
                " labels, expected one for each of " + std::to_string(samples) + " samples");
  EXPECT_EQ(refusal(0, {.trace = {.last_labels = Labels(size, 2)}}), "no error");
  EXPECT_EQ(refusal(0, {.trace = {.last_labels = Labels(size, 3)}}),
            "client 0: it has the label 3, expected 0 to 2");
  EXPECT_EQ(refusal(0, {.trace = {.selected = std::vector<bool>(size + 1)}}),
            "client 0: it has " + std::to_string(samples + 1) +
                " marks of selected samples, expected one for each of " + std::to_string(samples) +
                " samples");
  const std::string clients = std::to_string(scripted.engine.size());
  EXPECT_EQ(refusal(999999999, {}),
            "client 999999999: it is not one of the " + clients + " clients");
  EXPECT_EQ(refusal(-1, {}), "client -1: it is not one of the " + clients + " clients");
  ClientMemory model;
  model.model = at::zeros({3});
  EXPECT_THAT(refusal(0, model), testing::HasSubstr("client 0: its model is not "));
  EXPECT_EQ(error_kind([&] { scripted.engine.restore({{0, model}}); }), ErrorKind::run);
}

TEST(LocalEngine, AClientCanForget) {
  Scripted scripted([](const Message& task, ClientContext& context) {
    if (!context.archive().empty()) {
      context.archive() = {};
      return pong(99);
    }
    return count_tasks(task, context);
  });
  EXPECT_EQ(scripted.ask(pings({0})), (Replies{{0, 1}}));
  EXPECT_EQ(scripted.ask(pings({0})), (Replies{{0, 99}}));
  EXPECT_EQ(scripted.ask(pings({0})), (Replies{{0, 1}}));
  scripted.engine.commit();
  ASSERT_EQ(scripted.engine.memories().size(), 1U);
  EXPECT_EQ(scripted.ask(pings({0})), (Replies{{0, 99}}));
  scripted.engine.rollback();
  EXPECT_EQ(scripted.ask(pings({0})), (Replies{{0, 99}}));
  scripted.engine.commit();
  EXPECT_TRUE(scripted.engine.memories().empty());
}

TEST(LocalEngine, ClientsWithoutMemoryTakeNoRoom) {
  Scripted scripted([](const Message&, ClientContext& context) { return pong(context.id()); });
  scripted.ask(pings({0, 1, 2, 3}));
  scripted.engine.commit();
  EXPECT_TRUE(scripted.engine.memories().empty());
}

TEST(LocalEngine, AnExceptionOfAClientReachesTheCaller) {
  for (const std::int64_t lanes : {1, 3}) {
    Scripted scripted(
        [](const Message& task, ClientContext& context) {
          if (context.id() == 3) {
            throw std::runtime_error("client 3 is on fire");
          }
          return count_tasks(task, context);
        },
        lanes);
    std::vector<std::int64_t> folded;
    try {
      std::ignore = scripted.engine.ask(
          pings({0, 1, 3, 4}),
          [&](std::int64_t client, const Message&) { folded.push_back(client); });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "client 3 is on fire");
    }
    EXPECT_EQ(folded, (std::vector<std::int64_t>{4, 1})) << "those before it were folded";
    scripted.engine.rollback();
    EXPECT_EQ(scripted.ask(pings({0, 1, 4})), (Replies{{4, 1}, {1, 1}, {0, 1}}))
        << "the engine can be used again, and nothing was remembered";
  }
}

TEST(LocalEngine, AnExceptionOfTheFoldReachesTheCaller) {
  Scripted scripted(count_tasks);
  EXPECT_THROW(
      std::ignore = scripted.engine.ask(
          pings({0, 1, 3}), [](std::int64_t, const Message&) { throw std::out_of_range("fold"); }),
      std::out_of_range);
  scripted.engine.rollback();
  EXPECT_EQ(scripted.ask(pings({0})), (Replies{{0, 1}}));
}

TEST(LocalEngine, StopsTrainingAndEvaluationWhenAsked) {
  std::atomic<bool> stop{false};
  Scripted scripted(
      [](const Message&, ClientContext& context) {
        const TwoLayerNet net({3, 1, 8, 8});
        context.train(net.weights().initial(1), 0, {});
        return pong(context.steps());
      },
      2, &stop);
  EXPECT_EQ(scripted.ask(pings({0, 4})), (Replies{{4, 8}, {0, 2}}));
  stop = true;
  EXPECT_THROW(scripted.ask(pings({0, 4})), Interrupted);
  EXPECT_THROW(scripted.engine.evaluate(scripted.engine.initial_state(1)), Interrupted);
}

TEST(LocalEngine, ChecksTasksAndRepliesAgainstTheirExchanges) {
  Scripted scripted([](const Message&, ClientContext& context) {
    return context.id() == 1 ? Message("pang") : Message("pong").set("value", 1.0);
  });
  const auto fold = [](std::int64_t, const Message&) {};
  EXPECT_EQ(error_text([&] {
              std::ignore = scripted.engine.ask({{0, Message("pin")}}, fold);
            }),
            "unknown task 'pin'");
  EXPECT_EQ(error_text([&] { std::ignore = scripted.engine.ask(pings({0}), fold); }),
            "client 0: message 'pong': field 'value' is not of type u32");
  EXPECT_EQ(error_text([&] { std::ignore = scripted.engine.ask(pings({1}), fold); }),
            "client 1: task 'ping' was answered with 'pang', expected 'pong'");
  EXPECT_EQ(scripted.engine.traffic().bytes_up, 0);
}

TEST(LocalEngine, ATaskIsAnsweredByTheKindItAsksFor) {
  Scripted scripted([](const Message& task, ClientContext&) { return task; });
  const auto fold = [](std::int64_t, const Message&) { FAIL() << "it was folded"; };
  EXPECT_EQ(error_text([&] { std::ignore = scripted.engine.ask(pings({0}), fold); }),
            "client 0: task 'ping' was answered with 'ping', expected 'pong'");
  EXPECT_EQ(error_text([&] {
              std::ignore = scripted.engine.ask({{0, pong(1)}}, fold);
            }),
            "message 'pong' is a reply, expected a task");
  EXPECT_EQ(scripted.engine.traffic().bytes_up, 0);
}

TEST(LocalEngine, TakesOneOrderPerClient) {
  Scripted scripted(count_tasks);
  EXPECT_EQ(error_text([&] {
              scripted.ask(pings({0, 3, 1, 3}));
            }),
            "client 3 was given two orders");
  EXPECT_EQ(error_text([&] { scripted.ask(pings({6})); }), "there is no client 6");
  EXPECT_EQ(error_text([&] { scripted.ask(pings({-1})); }), "there is no client -1");
  EXPECT_EQ(error_kind([&] { scripted.ask(pings({0, 0})); }), ErrorKind::internal);
  EXPECT_EQ(scripted.ask(pings({3})), (Replies{{3, 1}})) << "nobody was asked";
  EXPECT_TRUE(scripted.ask({}).empty());
}

TEST(LocalEngine, ServesNobodyBeforeItHasAClientSide) {
  const DataSet data = tiny_data();
  Simulation engine(data, deal(data, {4}), net_info<TwoLayerNet>("two_layers"), {}, {}, nullptr);
  EXPECT_EQ(error_text(
                [&] { std::ignore = engine.ask(pings({0}), [](std::int64_t, const Message&) {}); }),
            "the engine was asked before it was told whom to serve");
}

TEST(LocalEngine, WorkersUseOneThreadPerOperation) {
  if (omp_get_max_threads == nullptr) {
    GTEST_SKIP() << "no OpenMP";
  }
  Scripted scripted([](const Message&, ClientContext&) { return pong(omp_get_max_threads()); }, 3);
  for (const auto& [client, threads] : scripted.ask(pings({0, 1, 2, 3, 4, 5}))) {
    EXPECT_EQ(threads, 1U);
  }
}

}  // namespace winnow::local_engine_test
