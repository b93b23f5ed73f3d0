#include "winnow/method/robust/geometric_median/geometric_median.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "method/base_rounds.h"
#include "testing/support.h"

namespace winnow::geometric_median_test {

std::unique_ptr<GeometricMedianMethod> with(const Json& table) {
  auto method = std::make_unique<GeometricMedianMethod>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

struct Played {
  State model;
  Json notes;
};

Played play(BaseMethod& method) {
  const std::vector<State> replies{state_of({0, 0}), state_of({1, 0}), state_of({0, 1}),
                                   state_of({10, 10})};
  FakeFleet fleet({5, 5, 5, 5}, [&](std::int64_t client, const Message&) {
    return Message("train_done")
        .set("model", replies[static_cast<std::size_t>(client)])
        .set("samples", 5U);
  });
  const Setting setting{.seed = 4, .rounds = 1, .clients = 4, .fraction = 1.0, .classes = 3};
  Played played{state_of({0, 0}), Json::object()};
  Server server{setting, fleet, played.model, played.notes};
  method.play(0, server);
  return played;
}

// spec: baselines 13
TEST(GeometricMedianMethod, ReweightsFourTimesAndSaysSo) {
  GeometricMedianMethod method;
  const Played played = play(method);
  EXPECT_NEAR(values_of(played.model)[0], 0.522398, 1e-6);
  EXPECT_EQ(played.notes["passes"], 5);
}

TEST(GeometricMedianMethod, TakesItsParameters) {
  EXPECT_NEAR(values_of(play(*with({{"passes", 1}})).model)[0], 1.324170, 1e-6);
  const Played converged = play(*with({{"until_converged", true}, {"passes", 0}}));
  EXPECT_NEAR(values_of(converged.model)[0], 0.5, 1e-4);
  EXPECT_GT(converged.notes["passes"], 8);
  // A distance that is never undercut leaves the mean as it is.
  EXPECT_NEAR(values_of(play(*with({{"nu", 1e6}})).model)[0], 2.75, 1e-6);
}

TEST(GeometricMedianMethod, MultipliesSamplesByTheFactors) {
  const auto method = with({{"passes", 0}});
  HandRound hand(state_of({0}));
  method->begin(hand.round);
  const auto add = [&](std::int64_t client, float value, std::uint32_t samples, double factor) {
    method->add(
        hand.round,
        {client, Message("train_done").set("model", state_of({value})).set("samples", samples),
         static_cast<double>(samples), factor});
  };
  add(0, 1, 100, 1.0);
  add(1, 3, 100, 3.0);
  add(2, 99, 100, 0.0);
  EXPECT_EQ(values_of(method->finish(hand.round)), std::vector<float>{2.5F});
}

TEST(GeometricMedianMethod, RefusesImpossibleParameters) {
  EXPECT_THAT(error_text([] { with({{"nu", 0.0}}); }), testing::HasSubstr("method.nu"));
  EXPECT_THAT(error_text([] { with({{"passes", -1}}); }), testing::HasSubstr("method.passes"));
}

}  // namespace winnow::geometric_median_test
