#include "winnow/method/base/fednova/fednova.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "method/base_rounds.h"
#include "method/small_federation.h"
#include "winnow/method/base/fedavg/fedavg.h"
#include "winnow/method/base/fedprox/fedprox.h"

namespace winnow::fednova::fednova_test {

using testing::FloatNear;
using testing::Pointwise;

std::unique_ptr<FedNova> fednova(const Json& table = Json::object()) {
  auto method = std::make_unique<FedNova>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

Upload upload(const State& model, std::uint32_t samples, double a, double factor = 1.0) {
  return {0, Message("train_done").set("model", model).set("samples", samples).set("a", a),
          static_cast<double>(samples), factor};
}

Upload proximal_upload(const State& model, std::uint32_t samples, double a, std::uint32_t tau) {
  Upload made = upload(model, samples, a);
  made.reply.set("tau", tau);
  return made;
}

void expect_near(const State& state, const std::vector<float>& expected, float tolerance = 1e-6F) {
  EXPECT_THAT(values_of(state), Pointwise(FloatNear(tolerance), expected));
}

// spec: baselines 3, label-noise C.7 #7, input-noise F7
TEST(FedNovaSteps, WithMomentumGiveTheWorkedAmounts) {
  EXPECT_DOUBLE_EQ(amount_of_steps(1, 0.9), 1.0);
  EXPECT_DOUBLE_EQ(amount_of_steps(2, 0.9), 2.9);
  EXPECT_NEAR(amount_of_steps(3, 0.9), 5.61, 1e-12);
  EXPECT_NEAR(amount_of_steps(6, 0.9), 17.82969, 1e-10);
  EXPECT_NEAR(amount_of_steps(10, 0.9), 41.38105961, 1e-8);
  EXPECT_NEAR(amount_of_steps(195, 0.9), 1860.0000001, 1e-6);
  EXPECT_NEAR(amount_of_steps(450, 0.9), 4410.0, 1e-6);
  EXPECT_NEAR(amount_of_steps(5, 0.5), 8.0625, 1e-12);
}

TEST(FedNovaSteps, WithoutMomentumAreTheirNumber) {
  for (const std::int64_t steps : {0, 1, 7, 1000}) {
    EXPECT_EQ(amount_of_steps(steps, 0.0), static_cast<double>(steps));
  }
}

TEST(FedNovaSteps, FollowTheClosedForm) {
  for (const double rho : {0.1, 0.5, 0.9, 0.99}) {
    for (const std::int64_t steps : {1, 4, 33, 500}) {
      const auto tau = static_cast<double>(steps);
      const double closed = (tau - rho * (1 - std::pow(rho, tau)) / (1 - rho)) / (1 - rho);
      EXPECT_NEAR(amount_of_steps(steps, rho), closed, 1e-9 * closed) << rho << " " << steps;
    }
  }
  EXPECT_DOUBLE_EQ(amount_of_steps(4, 1.0), 10.0) << "where the closed form divides by zero";
}

// spec: baselines 3
TEST(FedNovaSteps, WithAPullGiveTheWorkedAmount) {
  EXPECT_NEAR(amount_of_steps(3, 0.0, 0.1), 2.71, 1e-12);
  EXPECT_DOUBLE_EQ(amount_of_steps(9, 0.0, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(amount_of_steps(0, 0.0, 0.1), 0.0);
  double amount = 0.0;
  for (std::int64_t steps = 1; steps < 40; ++steps) {
    amount = (1 - 0.1) * amount + 1;
    EXPECT_NEAR(amount_of_steps(steps, 0.0, 0.1), amount, 1e-12) << steps;
  }
}

TEST(FedNovaSteps, WithMomentumAndAPullGiveTheWorkedAmounts) {
  EXPECT_NEAR(amount_of_steps(2, 0.9, 0.01), 2.89, 1e-12);
  EXPECT_NEAR(amount_of_steps(3, 0.9, 0.1), 5.14, 1e-12);
  EXPECT_NEAR(amount_of_steps(5, 0.5, 0.1), 6.3556, 1e-12);
}

// The coefficients themselves: one unit gradient at a time through the recursion of SGD.
TEST(FedNovaSteps, AreTheSumOfTheCoefficientsOfSgd) {
  for (const double momentum : {0.0, 0.5, 0.9}) {
    for (const double pull : {0.0, 0.05, 0.6, 1.0}) {
      constexpr int kSteps = 25;
      double sum = 0.0;
      for (int pushed = 0; pushed < kSteps; ++pushed) {
        double velocity = 0.0;
        double moved = 0.0;
        for (int step = 0; step < kSteps; ++step) {
          velocity = momentum * velocity + (step == pushed ? 1.0 : 0.0) - pull * moved;
          moved += velocity;
        }
        sum += std::abs(moved);
      }
      EXPECT_NEAR(amount_of_steps(kSteps, momentum, pull), sum, 1e-9) << momentum << " " << pull;
    }
  }
}

// spec: baselines 3
TEST(FedNova, NormalisesByTheStepsAndStretchesByTheirMean) {
  const State global = state_of({0});
  const auto equal = fednova();
  expect_near(fuse(*equal, global, {upload(state_of({-1}), 1, 2), upload(state_of({-2}), 1, 8)}),
              {-1.875F});
  expect_near(fuse(*equal, global, {upload(state_of({-1}), 1, 2), upload(state_of({-2}), 3, 8)}),
              {-2.03125F});
  EXPECT_EQ(values_of(global), std::vector<float>{0});
}

TEST(FedNova, LiterallyAveragesParameters) {
  const auto literal = fednova({{"literal", true}});
  expect_near(
      fuse(*literal, state_of({0}), {upload(state_of({-1}), 1, 2), upload(state_of({-2}), 1, 8)}),
      {-1.2F});
  expect_near(
      fuse(*literal, state_of({50}), {upload(state_of({-1}), 1, 2), upload(state_of({-2}), 1, 8)}),
      {-1.2F}, 1e-5F);
}

// spec: label-noise C.7 #7
TEST(FedNova, GivesTheWorkedModelWithMomentum) {
  const auto method = fednova();
  const State global = state_of({1, 2});
  const State first = state_of({0.4F, 1.4F});
  const State second = state_of({0.7F, 2.3F});
  expect_near(fuse(*method, global,
                   {upload(first, 30, amount_of_steps(6, 0.9)),
                    upload(second, 10, amount_of_steps(2, 0.9))}),
              {0.27961736F, 2.00878637F});
  expect_near(fuse(*method, global, {upload(first, 30, 5.61), upload(second, 10, 5.61)}),
              {0.475F, 1.625F});
}

// spec: input-noise F8; unit vectors show the coefficients.
TEST(FedNova, WeighsByTheFactorsOfAWrapper) {
  const State global = state_of({0, 0, 0});
  const double short_run = amount_of_steps(200, 0.9);
  const double long_run = amount_of_steps(395, 0.9);
  EXPECT_NEAR(short_run, 1910, 1e-5);
  EXPECT_NEAR(long_run, 3860, 1e-5);
  const std::vector<Upload> uploads{upload(state_of({1, 0, 0}), 2500, short_run, 2.0),
                                    upload(state_of({0, 1, 0}), 2500, short_run, 0.3),
                                    upload(state_of({0, 0, 1}), 5000, long_run, 0.3)};
  expect_near(fuse(*fednova(), global, uploads), {0.835331F, 0.125300F, 0.124001F});
  expect_near(fuse(*fednova({{"literal", true}}), global, uploads),
              {0.770152F, 0.115523F, 0.114326F});
}

// spec: baselines T3, input-noise F7
TEST(FedNova, OfEqualAmountsIsFedAvgWhateverTheFactors) {
  const State global = state_of({0.3F, -7, 11}, {0}, {3});
  const std::vector<Upload> uploads{upload(state_of({1, -2, 10}, {1}, {5}), 30, 8.0625, 2.0),
                                    upload(state_of({0.1F, -9, 12}, {4}, {8}), 20, 8.0625, 0.3),
                                    upload(state_of({-5, 3, 12.5F}, {2}, {8}), 70, 8.0625, 1.0)};
  BaseMethod plain;
  const std::string expected = hash(fuse(plain, global, uploads));
  EXPECT_EQ(hash(fuse(*fednova(), global, uploads)), expected);
  EXPECT_EQ(hash(fuse(*fednova({{"literal", true}}), global, uploads)), expected);
  const auto method = fednova();
  fuse(*method, global, {uploads[0], upload(global, 30, 4)});
  EXPECT_EQ(hash(fuse(*method, global, uploads)), expected) << "also after another round";
}

// spec: baselines 3, T3
TEST(FedNova, WithEqualStepsIsFedAvgBitForBit) {
  FedAvg fedavg;
  const SmallFederation equal{.sizes = {12, 12, 12, 12}};
  EXPECT_EQ(round_hashes(*fednova(), equal), round_hashes(fedavg, equal));
  EXPECT_EQ(round_hashes(*fednova({{"literal", true}}), equal), round_hashes(fedavg, equal));
  EXPECT_NE(round_hashes(*fednova()).front(), round_hashes(fedavg).front());
}

// spec: baselines T1
TEST(FedNova, ReturnsTheCommonModelOfIdenticalClients) {
  const State common = state_of({0.1F, 2.7F, -3.3F}, {0.4F}, {7});
  expect_near(fuse(*fednova(), state_of({5, 5, 5}, {1}, {0}),
                   {upload(common, 3, 4), upload(common, 9, 4), upload(common, 5, 4)}),
              values_of(common));
}

TEST(FedNova, AveragesBuffersWhateverTheSteps) {
  for (const bool literal : {false, true}) {
    const State next = fuse(
        *fednova({{"literal", literal}}), state_of({0}, {9}, {9}),
        {upload(state_of({-1}, {0}, {10}), 100, 2), upload(state_of({-2}, {4}, {11}), 300, 8)});
    EXPECT_EQ(values_of(next.buffers()), std::vector<float>{3.0F});
    EXPECT_EQ(values_of(next.counters()), std::vector<float>{11.0F});
  }
}

TEST(FedNova, PassesOverAClientWithoutSteps) {
  const State global = state_of({0}, {0});
  const State next = fuse(*fednova(), global,
                          {upload(state_of({-1}, {1}), 1, 2), upload(state_of({70}, {80}), 5, 0),
                           upload(state_of({-2}, {1}), 1, 8)});
  expect_near(next, {-1.875F, 1.0F});
  EXPECT_EQ(error_text([&] { fuse(*fednova(), global, {upload(global, 5, 0)}); }),
            "no client contributed to this round | lower the noise or raise federation.fraction");
}

// d = (1/2.71, 2/1); tau_eff = (3 + 1)/2.
TEST(FedNova, WithAPullStretchesByTheNumberOfSteps) {
  const auto method = fednova({{"mu", 0.5}});
  const double d = (1 / 2.71 + 2) / 2;
  expect_near(
      fuse(*method, state_of({0}),
           {proximal_upload(state_of({-1}), 1, 2.71, 3), proximal_upload(state_of({-2}), 1, 1, 1)}),
      {static_cast<float>(-2 * d)});
}

// Steps 1 and 0.5: b = 1, then 0.5*1 + 0.5 = 1.
TEST(FedNova, ServerMomentumCarriesTheStepOn) {
  const auto method = fednova({{"server_momentum", 0.5}});
  const State once = fuse(*method, state_of({0}), {upload(state_of({-1}), 1, 4)});
  expect_near(once, {-1});
  expect_near(fuse(*method, once, {upload(state_of({-1.5F}), 1, 9)}), {-2});
}

// The paper's b counts steps in learning rates: b = 1 / 1, then 0.5 * 1 + 0.5 / 0.5 = 1.5, of which
// the second rate moves by 0.75.
TEST(FedNova, ServerMomentumShrinksWithTheLearningRate) {
  const Json table{{"server_momentum", 0.5}};
  const auto whole = fednova(table);
  State global = state_of({0});
  const auto play = [&](FedNova& method, std::int64_t round, float step) {
    FakeFleet fleet({1}, [&](std::int64_t, const Message&) {
      return Message("train_done")
          .set("model", state_of({values_of(global)[0] - step}))
          .set("samples", std::uint32_t{1})
          .set("a", 4.0);
    });
    const Setting setting{.rounds = 9, .clients = 1, .fraction = 1.0, .train = {.lr_decay = 0.5}};
    Json notes = Json::object();
    Server server{setting, fleet, global, notes};
    method.play(round, server);
  };
  play(*whole, 0, 1.0F);
  expect_near(global, {-1});
  const State middle = global;
  Archive archive;
  whole->save(archive);
  play(*whole, 1, 0.5F);
  expect_near(global, {-1.75F});

  const auto resumed = fednova(table);
  resumed->load(archive);
  global = middle;
  play(*resumed, 1, 0.5F);
  expect_near(global, {-1.75F});
  play(*resumed, 3, 0.0F);
  expect_near(global, {-1.75F - 0.75F * 0.5F * 0.25F});
}

TEST(FedNova, ResumesItsMomentumBitForBit) {
  const Json table{{"server_momentum", 0.9}};
  const auto whole = fednova(table);
  const State start = state_of({0.3F, 0.7F});
  const std::vector<Upload> uploads{upload(state_of({0.2F, 0.9F}), 3, 5),
                                    upload(state_of({0.1F, 1.1F}), 4, 2)};
  const State middle = fuse(*whole, start, uploads);
  Archive archive;
  whole->save(archive);
  const auto resumed = fednova(table);
  resumed->load(archive);
  const State end = fuse(*whole, middle, uploads);
  EXPECT_EQ(hash(fuse(*resumed, middle, uploads)), hash(end));

  whole->load(archive);
  EXPECT_EQ(hash(fuse(*whole, middle, uploads)), hash(end)) << "a round is taken back";
  whole->load({});
  EXPECT_EQ(hash(fuse(*whole, start, uploads)), hash(middle)) << "an empty archive clears";
}

TEST(FedNova, RefusesMomentumOfTheLiteralForm) {
  const auto method = fednova({{"literal", true}, {"server_momentum", 0.5}});
  EXPECT_EQ(error_text([&] { method->check({}); }),
            "method.server_momentum: expected 0 together with literal = true | the literal form "
            "averages parameters and has no step to give momentum to");
  EXPECT_NO_THROW(fednova({{"literal", true}})->check({}));
  EXPECT_THAT(error_text([] { fednova({{"mu", -0.1}}); }), testing::HasSubstr("method.mu"));
}

// A client with 12 samples that trains for two epochs of batches of five: six steps.
struct OneClient {
  Message answer(const BaseMethod& method, const TrainOptions& options) {
    Lane lane(make_net<TwoLayerNet>(data), feed, false);
    ClientContext context(7, held, memory, lane, options, 5);
    Message reply = method.client_side()->handle(task_of(method, 3, 7, start), context);
    check(reply, method.exchanges({}));
    return reply;
  }

  DataSet data = tiny_data();
  Feed feed{data.train.images, data.normalisation, 0, at::kCPU};
  ClientData held = deal(data, {12}).front();
  ClientMemory memory;
  State start = TwoLayerNet(shape_of(data)).weights().initial(1);
};

// spec: baselines T6
TEST(FedNova, ClientTrainsAsFedAvgAndSendsOneNumberMore) {
  OneClient client;
  const TrainOptions options{.epochs = 2, .batch_size = 5, .momentum = 0.9};
  const Message reply = client.answer(*fednova(), options);
  EXPECT_EQ(reply.get<double>("a"), amount_of_steps(6, 0.9));
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 12U);
  const Message plain = client.answer(FedProx(0.0), options);
  EXPECT_EQ(hash(reply.get<State>("model")), hash(plain.get<State>("model")));
  EXPECT_EQ(reply.bytes(), plain.bytes() + 8);
  EXPECT_TRUE(client.memory.empty());
}

TEST(FedNova, ClientWithAPullTrainsAsFedProx) {
  OneClient client;
  const TrainOptions options{
      .epochs = 2, .batch_size = 5, .lr = 0.1, .lr_decay = 0.5, .momentum = 0.0};
  const Message reply = client.answer(*fednova({{"mu", 2.0}}), options);
  EXPECT_EQ(reply.get<std::uint32_t>("tau"), 6U);
  EXPECT_NEAR(reply.get<double>("a"), amount_of_steps(6, 0.0, 2.0 * 0.1 / 8), 1e-12) << "round 3";
  const Message plain = client.answer(FedProx(2.0), options);
  EXPECT_EQ(hash(reply.get<State>("model")), hash(plain.get<State>("model")));
  EXPECT_EQ(reply.bytes(), plain.bytes() + 12);

  TrainOptions carried = options;
  carried.momentum = 0.9;
  EXPECT_NEAR(client.answer(*fednova({{"mu", 2.0}}), carried).get<double>("a"),
              amount_of_steps(6, 0.9, 2.0 * 0.1 / 8), 1e-12);
}

TEST(FedNova, ClientRefusesAPullThatOvershoots) {
  OneClient client;
  const auto method = fednova({{"mu", 11.0}});
  EXPECT_EQ(error_text([&] { client.answer(*method, {.lr = 0.1}); }),
            "method.mu = 11: expected at most 1 / train.lr, or the proximal term overshoots | "
            "lower mu or "
            "train.lr");
}

TEST(FedNova, PlaysARoundOverAFleet) {
  const std::vector<float> moved{-1, -2};
  FakeFleet fleet({1, 1}, [&](std::int64_t client, const Message&) {
    return Message("train_done")
        .set("model", state_of({moved[static_cast<std::size_t>(client)]}))
        .set("samples", std::uint32_t{1})
        .set("a", client == 0 ? 2.0 : 8.0);
  });
  const Setting setting{.seed = 4, .rounds = 1, .clients = 2, .fraction = 1.0, .classes = 3};
  State global = state_of({0});
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  const auto method = fednova();
  method->play(0, server);
  expect_near(global, {-1.875F});
  EXPECT_EQ(fleet.traffic().bytes_down, 2 * (4 + 4));
  EXPECT_EQ(fleet.traffic().bytes_up, 2 * (4 + 4 + 8));
}

TEST(FedNova, IsABaseMethod) {
  const MethodInfo info = fednova_info();
  EXPECT_EQ(info.name, "fednova");
  EXPECT_EQ(info.group, "base");
  EXPECT_NE(dynamic_cast<BaseMethod*>(info.make().get()), nullptr);
}

}  // namespace winnow::fednova::fednova_test
