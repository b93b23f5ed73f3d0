#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <tuple>

#include <numeric>

#include "testing/simulation.h"
#include "testing/support.h"

namespace winnow::own_models_test {

const std::vector<std::int64_t> kSizes{6, 9, 0, 12};

// Clients 0, 2, ... have two layers, clients 1, 3, ... one.
struct Mixed {
  explicit Mixed(ScriptedClient::Script script, std::int64_t lanes = 2)
      : engine(data, deal(data, kSizes), net_info<NormNet>("norm"), {.eval_batch = 2},
               {.lanes = lanes, .seed = 8, .public_images = data.test.images}, nullptr) {
    engine.serve(std::make_unique<ScriptedClient>(std::move(script)),
                 {{"ping", {}, "pong", {field::whole("value", "a number")}}});
    engine.crew.use_networks({net_info<TwoLayerNet>("two"), net_info<LinearNet>("one")});
  }
  std::map<std::int64_t, std::uint32_t> ask(const std::vector<std::int64_t>& clients) {
    std::vector<Order> orders;
    for (const std::int64_t client : clients) {
      orders.push_back({client, Message("ping")});
    }
    std::map<std::int64_t, std::uint32_t> values;
    std::ignore = engine.ask(orders, [&](std::int64_t client, const Message& reply) {
      values[client] = reply.get<std::uint32_t>("value");
    });
    return values;
  }

  DataSet data = tiny_data();
  Simulation engine;
};

Message pong(std::int64_t value) {
  return Message("pong").set("value", static_cast<std::uint32_t>(value));
}

// Makes a model of the client's network and keeps it.
Message keep_a_model(const Message& /*task*/, ClientContext& context) {
  const State model = context.initial(100 + static_cast<std::uint64_t>(context.id()));
  context.own_model() = model.flat;
  return pong(model.layout->total());
}

TEST(OwnModels, ClientsAreServedByLanesOfTheirNetworks) {
  Mixed mixed(keep_a_model);
  const std::int64_t two = TwoLayerNet(shape_of(mixed.data)).weights().layout()->total();
  const std::int64_t one = LinearNet(shape_of(mixed.data)).weights().layout()->total();
  const auto expected = [](std::int64_t size) { return static_cast<std::uint32_t>(size); };
  EXPECT_EQ(mixed.ask({0, 1, 3}), (std::map<std::int64_t, std::uint32_t>{
                                      {0, expected(two)}, {1, expected(one)}, {3, expected(one)}}));
  EXPECT_EQ(mixed.engine.crew.layout()->total(),
            NormNet(shape_of(mixed.data)).weights().layout()->total());
}

TEST(OwnModels, PublicImagesReachTheClients) {
  Mixed mixed([](const Message&, ClientContext& context) {
    return pong(context.public_feed().images().size(0));
  });
  EXPECT_EQ(mixed.ask({1}).at(1), 30U);
  ClientMemory memory;
  const ClientData held;
  const Feed feed(mixed.data.train.images, mixed.data.normalisation, 0, at::kCPU);
  Lane lane(make_net<LinearNet>(mixed.data), feed, false);
  const ClientContext context(0, held, memory, lane, {}, 1);
  EXPECT_EQ(error_text([&] { context.public_feed(); }), "there are no public images");
}

TEST(OwnModels, AreFoundBeforeAndAfterACommit) {
  Mixed mixed(keep_a_model);
  EXPECT_TRUE(mixed.engine.own_models().empty());
  mixed.ask({0, 1});
  EXPECT_EQ(mixed.engine.own_models().size(), 2U);
  mixed.engine.rollback();
  EXPECT_TRUE(mixed.engine.own_models().empty());
  mixed.ask({1, 3});
  mixed.engine.commit();
  const auto models = mixed.engine.own_models();
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(hash(models.at(3)), hash(LinearNet(shape_of(mixed.data)).weights().initial(103)));
  EXPECT_EQ(models.at(3).layout->total(), models.at(3).flat.numel());
}

// What the engine should find, model by model.
struct ByHand {
  explicit ByHand(const Mixed& mixed) {
    const Feed train(mixed.data.train.images, mixed.data.normalisation, 0, at::kCPU);
    const Feed test(mixed.data.test.images, mixed.data.normalisation, 0, at::kCPU);
    Lane two(make_net<TwoLayerNet>(mixed.data), train, false);
    Lane one(make_net<LinearNet>(mixed.data), train, false);
    std::vector<std::int64_t> samples(30);
    std::iota(samples.begin(), samples.end(), std::int64_t{0});
    probabilities = at::zeros({30, 3}, at::kDouble);
    for (const auto& [client, model] : mixed.engine.own_models()) {
      Lane& lane = client % 2 == 0 ? two : one;
      lane.scorer().load(model);
      total += lane.scorer().score(test, {samples, mixed.data.test.labels}, 30);
      probabilities += lane.scorer().logits(test, samples, 30).softmax(1).to(at::kDouble) / 3.0;
    }
  }
  Score total;
  at::Tensor probabilities;
};

TEST(OwnModels, AreMeasuredOneByOneAndTogether) {
  Mixed mixed(keep_a_model);
  EXPECT_EQ(mixed.engine.examiner.evaluate_each(mixed.engine.own_models()).count, 0);
  EXPECT_EQ(mixed.engine.examiner.evaluate_ensemble(mixed.engine.own_models()).count, 0);
  mixed.ask({0, 1, 3});
  const ByHand expected(mixed);
  const Score each = mixed.engine.examiner.evaluate_each(mixed.engine.own_models());
  EXPECT_EQ(each.count, 90);
  EXPECT_EQ(each.correct, expected.total.correct);
  EXPECT_NEAR(each.loss_sum, expected.total.loss_sum, 1e-3);
  const at::Tensor labels = at::tensor(mixed.data.test.labels, at::kLong);
  const Score together = mixed.engine.examiner.evaluate_ensemble(mixed.engine.own_models());
  EXPECT_EQ(together.count, 30);
  EXPECT_EQ(together.correct,
            expected.probabilities.argmax(1).eq(labels).sum().item<std::int64_t>());
  EXPECT_NEAR(together.loss_sum,
              -expected.probabilities.gather(1, labels.unsqueeze(1)).log().sum().item<double>(),
              1e-4);
}

TEST(OwnModels, MeasuringThemDoesNotDependOnTheLanes) {
  Mixed one(keep_a_model, 1);
  Mixed five(keep_a_model, 5);
  one.ask({0, 1, 3});
  five.ask({0, 1, 3});
  const ModelsByClient models = one.engine.own_models();
  EXPECT_EQ(one.engine.examiner.evaluate_each(models).loss_sum,
            five.engine.examiner.evaluate_each(models).loss_sum);
  EXPECT_EQ(one.engine.examiner.evaluate_ensemble(models).loss_sum,
            five.engine.examiner.evaluate_ensemble(models).loss_sum);
}

}  // namespace winnow::own_models_test
