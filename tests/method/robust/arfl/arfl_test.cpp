#include "winnow/method/robust/arfl/arfl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/support.h"

namespace winnow::arfl_test {

std::unique_ptr<ArflMethod> with(const Json& table) {
  auto method = std::make_unique<ArflMethod>();
  Params params;
  method->declare(params);
  params.read(table, "method");
  return method;
}

struct Played {
  State model;
  Json notes;
};

// A round of clients whose ids do not follow the order of folding.
Played play(BaseMethod& method, const std::vector<float>& values) {
  std::vector<std::int64_t> sizes;
  for (std::size_t k = 0; k < values.size(); ++k) {
    sizes.push_back(static_cast<std::int64_t>(1 + k));
  }
  FakeFleet fleet(sizes, [&](std::int64_t client, const Message&) {
    return Message("train_done")
        .set("model", state_of({values[static_cast<std::size_t>(client)]}))
        .set("samples", static_cast<std::uint32_t>(1 + client));
  });
  const Setting setting{.seed = 4,
                        .rounds = 1,
                        .clients = static_cast<std::int64_t>(values.size()),
                        .fraction = 1.0,
                        .classes = 3};
  Played played{state_of({0}), Json::object()};
  Server server{setting, fleet, played.model, played.notes};
  method.play(0, server);
  return played;
}

// spec: baselines 14
TEST(ArflMethod, GivesTheWorkedNumberAndNotesTheWeights) {
  ArflMethod method;
  const Played played = play(method, {1, 1.1F, .9F, 1.05F, 5});
  EXPECT_NEAR(values_of(played.model)[0], 1.012514, 1e-6);
  EXPECT_EQ(played.notes["arfl_clients"], (Json{0, 1, 2, 3, 4}));
  EXPECT_NEAR(played.notes["arfl_weights"][0].get<double>(), 0.249981, 1e-6);
  EXPECT_NEAR(played.notes["arfl_weights"][4].get<double>(), 0.000077, 1e-6);
}

TEST(ArflMethod, TakesItsParameters) {
  const std::vector<float> values{1, 1.1F, .9F, 1.05F, 5};
  const Json wide = play(*with({{"lambda", 1000.0}}), values).notes["arfl_weights"];
  EXPECT_NEAR(wide[4].get<double>(), 0.2, 1e-9) << "nothing is far enough";
  EXPECT_NEAR(values_of(play(*with({{"lambda", 1000.0}}), values).model)[0], 1.81, 1e-6);
  EXPECT_NEAR(values_of(play(*with({{"delta", 0.0}}), values).model)[0], 1.012806, 2e-6)
      << "the outlier's own value counts, with its small weight";
}

TEST(ArflMethod, OfTwoClientsIsTheMedian) {
  ArflMethod method;
  EXPECT_EQ(values_of(play(method, {4, 7}).model), std::vector<float>{5.5F});
}

TEST(ArflMethod, RefusesImpossibleParameters) {
  EXPECT_THAT(error_text([] { with({{"lambda", 0.0}}); }), testing::HasSubstr("method.lambda"));
  EXPECT_THAT(error_text([] { with({{"delta", 1.5}}); }), testing::HasSubstr("method.delta"));
}

}  // namespace winnow::arfl_test
