#include "winnow/engine/hostile_fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "testing/support.h"

namespace winnow::hostile_fleet_test {

using testing::ElementsAre;
using testing::FloatNear;

const State kBase = state_of({1, 1}, {5}, {7});
const State kOwn = state_of({2, 3}, {6}, {9});

std::vector<float> sent(const AttackOptions& options, const std::vector<State>& seen = {}) {
  return values_of(attacked(options, kBase, kOwn, seen, 11));
}

// spec: rivals 7
TEST(Attacked, TurnsTheSignOfTheUpdate) {
  EXPECT_THAT(sent({.kind = "sign_flip"}), ElementsAre(0, -1, 6, 9)) << "statistics stay";
  EXPECT_THAT(sent({.kind = "sign_flip", .scale = 4}), ElementsAre(-3, -7, 6, 9));
}

TEST(Attacked, StaysJustInsideTheSpread) {
  EXPECT_THAT(
      sent({.kind = "alie", .z = 1.5}, {state_of({2, 3}, {6}, {9}), state_of({4, 3}, {6}, {9})}),
      ElementsAre(FloatNear(1 + 2 - 1.5F, 1e-6F), 3, 6, 9))
      << "mean 2, deviation 1; mean 2, deviation 0";
}

TEST(Attacked, TurnsTheMeanUpdateRound) {
  EXPECT_THAT(sent({.kind = "inner_product", .scale = .5},
                   {state_of({2, 3}, {6}, {9}), state_of({4, 3}, {6}, {9})}),
              ElementsAre(0, 0, 6, 9));
}

TEST(Attacked, SendsNoiseAsLargeAsTheUpdate) {
  const std::vector<float> values = sent({.kind = "random"});
  EXPECT_EQ(values, sent({.kind = "random"})) << "the same key, the same draw";
  EXPECT_NE(values[0], 2.0F);
  EXPECT_EQ(values[2], 6.0F);
  State base = State::zeros(
      std::make_shared<const Layout>(std::vector<Slot>{{"w", {20000}, SlotKind::parameter, 0, 0}}));
  State own = base.clone();
  own.flat.fill_(3.0F);
  const State noise = attacked({.kind = "random", .scale = 2}, base, own, {}, 5);
  EXPECT_NEAR(noise.flat.square().mean().item<double>(), 36.0, 1.5);
}

TEST(Attacked, SendsBackWhatItGot) {
  EXPECT_EQ(sent({.kind = "free_rider"}), values_of(kBase));
}

// Client k adds k to the model it gets.
FakeFleet honest(std::size_t clients) {
  return {std::vector<std::int64_t>(clients, 5), [](std::int64_t client, const Message& task) {
            State model = task.has("model") ? task.get<State>("model").clone() : state_of({50});
            model.flat.add_(static_cast<double>(client));
            return Message("train_done").set("model", model).set("samples", std::uint32_t{5});
          }};
}

std::vector<Order> orders(std::int64_t clients) {
  std::vector<Order> made;
  for (std::int64_t client = 0; client < clients; ++client) {
    made.push_back({client, Message("train").set("model", state_of({10}))});
  }
  return made;
}

struct Heard {
  std::vector<std::int64_t> clients;
  std::vector<float> values;
};
Heard ask(HostileFleet& fleet, const std::vector<Order>& to) {
  Heard heard;
  EXPECT_TRUE(fleet
                  .ask(to,
                       [&](std::int64_t client, const Message& reply) {
                         heard.clients.push_back(client);
                         heard.values.push_back(values_of(reply.get<State>("model"))[0]);
                         EXPECT_EQ(reply.get<std::uint32_t>("samples"), 5U);
                       })
                  .empty());
  return heard;
}

TEST(HostileFleet, ChangesTheModelsOfAttackersOnly) {
  FakeFleet inner = honest(4);
  HostileFleet fleet(inner, {{{.kind = "sign_flip"}, {1, 3}}}, 7);
  fleet.begin(0);
  EXPECT_THAT(ask(fleet, orders(4)).values, ElementsAre(10, 9, 12, 7));
}

TEST(HostileFleet, KeepsTheOrderOfFoldingWhereAttackersCollude) {
  FakeFleet inner = honest(4);
  FakeFleet other = honest(4);
  HostileFleet few(inner, {{{.kind = "inner_product"}, {1, 3}}}, 7);
  few.begin(0);
  const Heard heard = ask(few, orders(4));
  HostileFleet none(other, {}, 7);
  none.begin(0);
  EXPECT_EQ(heard.clients, ask(none, orders(4)).clients);
  EXPECT_THAT(heard.values, ElementsAre(10, 8, 12, 8)) << "the mean of 1 and 3";
  FakeFleet third = honest(4);
  HostileFleet all(third, {{{.kind = "inner_product", .sees = "all"}, {1, 3}}}, 7);
  all.begin(0);
  EXPECT_THAT(ask(all, orders(4)).values, ElementsAre(10, 8.5, 12, 8.5)) << "of 0 to 3";
}

// A method may send the model in one task and have it trained in the next.
TEST(HostileFleet, KnowsTheModelOfTheRound) {
  FakeFleet inner = honest(2);
  HostileFleet fleet(inner, {{{.kind = "free_rider"}, {1}}}, 7);
  fleet.begin(0);
  const std::vector<Order> without{{1, Message("train")}};
  EXPECT_THAT(ask(fleet, without).values, ElementsAre(51)) << "no model was sent";
  ask(fleet, orders(2));
  EXPECT_THAT(ask(fleet, without).values, ElementsAre(10));
  fleet.begin(1);
  EXPECT_THAT(ask(fleet, without).values, ElementsAre(51)) << "another round";
}

TEST(HostileFleet, LetsAModelThatDivergedPass) {
  FakeFleet inner({5}, [](std::int64_t, const Message&) {
    return Message("train_done").set("model", state_of({NAN})).set("samples", std::uint32_t{5});
  });
  HostileFleet fleet(inner, {{{.kind = "free_rider"}, {0}}}, 7);
  fleet.begin(0);
  EXPECT_TRUE(std::isnan(ask(fleet, orders(1)).values[0]));
}

}  // namespace winnow::hostile_fleet_test
