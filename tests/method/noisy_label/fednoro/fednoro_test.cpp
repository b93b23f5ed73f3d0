#include "winnow/method/noisy_label/fednoro/fednoro.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "method/one_client.h"
#include "method/rows.h"
#include "testing/support.h"
#include "winnow/method/noisy_label/fedelc/fedelc.h"
#include "winnow/method/noisy_label/fednoro/arithmetic.h"
#include "winnow/method/noisy_label/fednoro/client.h"
#include "winnow/method/trainer/logit_adjustment/logit_adjustment.h"
#include "winnow/train/lane.h"

namespace winnow::fednoro_test {

using fednoro::ClassLosses;
using testing::DoubleNear;
using testing::ElementsAre;
using Ids = std::vector<std::int64_t>;
using Values = std::vector<double>;

TEST(FedNoRoVectors, AreTheMeansByGivenClass) {
  const ClassLosses own = fednoro::class_losses(Values{1, 3, 5}, Ids{0, 0, 2}, 3);
  EXPECT_THAT(own.mean, ElementsAre(2, 0, 5));
  EXPECT_THAT(own.count, ElementsAre(2, 0, 1));
}

// spec: rivals 2.2
TEST(FedNoRoVectors, FillAbsentClassesAndScaleEachClass) {
  const Rows rows = fednoro::comparable(
      {{1, {{1, 2, 7}, {4, 4, 4}}}, {2, {{3, 0, 7}, {4, 0, 4}}}, {5, {{2, 4, 7}, {4, 4, 4}}}});
  EXPECT_THAT(rows[0], ElementsAre(0, 0, 0));
  EXPECT_THAT(rows[1], ElementsAre(1, 0, 0))
      << "the class it does not have takes the smallest value";
  EXPECT_THAT(rows[2], ElementsAre(.5, 1, 0)) << "all agree on the last class";
}

TEST(FedNoRoDetection, FindsTheClientsWithLargeLosses) {
  std::map<std::int64_t, ClassLosses> clients;
  for (std::int64_t k = 0; k < 20; ++k) {
    const double base = k % 4 == 1 ? 2.0 : 0.5;
    clients[k] = {{base + .01 * static_cast<double>(k), base + .02 * static_cast<double>(k % 3)},
                  {3, 3}};
  }
  EXPECT_THAT(fednoro::noisy_clients(clients, 7), ElementsAre(1, 5, 9, 13, 17));
  EXPECT_TRUE(fednoro::noisy_clients({{0, {{1}, {1}}}, {1, {{1}, {1}}}}, 7).empty());
}

// spec: rivals 2.4
TEST(FedNoRoRamp, RisesToItsWeight) {
  EXPECT_NEAR(fednoro::distillation_weight(.8, 10, 10, 49), .005390, 1e-6);
  EXPECT_NEAR(fednoro::distillation_weight(.8, 30, 10, 49), .244177, 1e-6);
  EXPECT_EQ(fednoro::distillation_weight(.8, 49, 10, 49), .8);
  EXPECT_EQ(fednoro::distillation_weight(.8, 60, 10, 49), .8);
  EXPECT_EQ(fednoro::distillation_weight(.8, 0, 5, 5), .8);
}

// spec: rivals 2.4: the class that the client does not have takes no part.
TEST(FedNoRoLoss, IsTheWorkedNumber) {
  const at::Tensor logits = rows_of({{1.0F, 0.0F, 4.0F}});
  const at::Tensor prior = log_prior(Ids{0, 1}, 3);
  const at::Tensor loss = fednoro::distilled_loss(
      logits, at::tensor({1}, at::kLong), rows_of({{.6F, .3F, .1F}}), prior, at::tensor({.4F}));
  EXPECT_EQ(loss.dim(), 0);
  EXPECT_NEAR(loss.item<double>(), .661553, 1e-5);
}

// spec: rivals 2.5
TEST(FedNoRoWeights, FallWithTheDistanceFromACleanModel) {
  HeldModels held;
  held.add(0, state_of({0, 0}), 10, 10);
  held.add(1, state_of({3, 4}), 10, 10);
  held.add(2, state_of({6, 8}), 10, 10);
  const auto factors = fednoro::distance_factors(held, {1, 2});
  EXPECT_THAT(factors, ElementsAre(1, DoubleNear(.606531, 1e-6), DoubleNear(.367879, 1e-6)));
  EXPECT_THAT(fednoro::distance_factors(held, {}), ElementsAre(1, 1, 1));
  EXPECT_THAT(fednoro::distance_factors(held, {0, 1, 2}), ElementsAre(1, 1, 1)) << "one kind only";
}

struct Federation {
  explicit Federation(const Json& table = {{"warmup", 1}}) : method(make_with<FedNoRo>(table)) {}

  Json play(std::int64_t round) {
    FakeFleet fleet({4, 4, 4, 4}, [&](std::int64_t client, const Message& task) {
      kinds.push_back(task.kind());
      if (task.kind() == "class_losses") {
        const double loss = client == 2 ? 5.0 : 1.0 + .001 * static_cast<double>(client);
        return Message("class_losses_done")
            .set("mean", Values{loss, loss})
            .set("count", Values{2, 2});
      }
      return Message(task.kind() + "_done")
          .set("model", task.get<State>("model"))
          .set("samples", std::uint32_t{4});
    });
    Json notes = Json::object();
    Server server{setting, fleet, global, notes};
    method->play(round, server);
    for (const Order& order : fleet.asked) {
      EXPECT_NO_THROW(check(order.task, method->exchanges(setting)));
    }
    return notes;
  }

  std::vector<std::string> kinds;
  Setting setting{.seed = 4, .rounds = 9, .clients = 4, .fraction = 1.0, .classes = 2};
  State global = state_of({1, 2});
  std::unique_ptr<FedNoRo> method;
};

TEST(FedNoRo, ComparesClientsOnceAndTrainsNoisyOnesApart) {
  Federation federation;
  EXPECT_EQ(federation.play(0).at("stage"), 1);
  EXPECT_THAT(federation.kinds, testing::Each("train"));
  EXPECT_FALSE(federation.method->findings().flagged);
  federation.kinds.clear();
  const Json notes = federation.play(1);
  EXPECT_EQ(notes.at("flagged"), 1);
  EXPECT_THAT(*federation.method->findings().flagged, ElementsAre(2));
  EXPECT_EQ(std::ranges::count(federation.kinds, "class_losses"), 4);
  EXPECT_EQ(std::ranges::count(federation.kinds, "train_noisy"), 1);
  federation.kinds.clear();
  federation.play(2);
  EXPECT_EQ(std::ranges::count(federation.kinds, "class_losses"), 0) << "once is enough";
}

TEST(FedNoRo, KeepsWhoIsNoisy) {
  Federation federation;
  federation.play(1);
  Archive archive;
  federation.method->save(archive);
  const auto again = make_with<FedNoRo>();
  again->load(archive);
  EXPECT_EQ(again->findings().flagged, federation.method->findings().flagged);
  EXPECT_EQ(again->findings().scores, federation.method->findings().scores);
}

TEST(FedNoRo, RefusesARunThatIsAllWarmUp) {
  EXPECT_EQ(error_text([] {
              make_with<FedNoRo>({{"warmup", 9}})->check({.rounds = 9});
            }),
            "method.warmup = 9: expected fewer than the 9 rounds of the run | a run that ends with "
            "its warm-up trusts all labels");
}

TEST(FedNoRo, RefusesMoreClassesThanItCanCompare) {
  EXPECT_EQ(error_text([] { make_with<FedNoRo>()->check({.rounds = 99, .classes = 1001}); }),
            "method fednoro: 1001 classes are more than 1000, the most whose pairs it can compare");
  EXPECT_EQ(error_text([] { make_with<FedElc>()->check({.rounds = 99, .classes = 10'000}); }),
            "method fedelc: 10000 classes are more than 1000, the most whose pairs it can compare");
  EXPECT_NO_THROW(make_with<FedNoRo>()->check({.rounds = 99, .classes = 1000}));
}

TEST(FedNoRoDetection, EndsWhenItIsToldToStop) {
  const std::map<std::int64_t, fednoro::ClassLosses> clients{
      {0, {{1, 2}, {1, 1}}}, {1, {{2, 1}, {1, 1}}}, {2, {{3, 3}, {1, 1}}}};
  EXPECT_THROW(fednoro::noisy_clients(clients, 7, [] { throw Interrupted(); }), Interrupted);
}

TEST(FedNoRoClient, TrainsWithAdjustedLogitsAndDistils) {
  OneClient client;
  const auto method = make_with<FedNoRo>();
  const State start = client.initial(1);
  const auto train = [&](const char* kind) {
    return Message(kind).set("round", std::uint32_t{2}).set("model", start);
  };
  const Message adjusted = client.handle(*method, train("train"));
  EXPECT_EQ(model_hash(adjusted),
            model_hash(client.handle(*make_with<LogitAdjustment>(), train("train"))));
  Message noisy = train("train_noisy");
  EXPECT_NE(model_hash(client.handle(*method, noisy.set("weight", .8))), model_hash(adjusted));
  EXPECT_TRUE(client.memory.empty()) << "nothing is remembered";
  Message losses = Message("class_losses").set("model", start);
  const Message told = client.handle(*method, losses);
  double count = 0.0;
  for (const double own : told.get<Values>("count")) {
    count += own;
  }
  EXPECT_EQ(count, 12.0);
}

// spec: rivals 6.4
TEST(LogitAdjustment, AddsTheLogarithmOfTheFrequencies) {
  const at::Tensor prior = log_prior(Ids{0, 0, 0, 2}, 3);
  EXPECT_NEAR(prior[0].item<double>(), -.287682, 1e-6);
  EXPECT_EQ(prior[1].item<float>(), kAbsentClass);
  EXPECT_NEAR(prior[2].item<double>(), -1.386294, 1e-6);
  EXPECT_NEAR(log_prior(Ids{0, 0, 0, 2}, 3, .5)[2].item<double>(), -.693147, 1e-6);
}

}  // namespace winnow::fednoro_test
