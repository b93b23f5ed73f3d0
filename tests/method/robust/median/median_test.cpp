#include "winnow/method/robust/median/median.h"

#include <gtest/gtest.h>

#include "testing/support.h"

namespace winnow::median_test {

TEST(Median, TakesTheMiddleOfTheReplies) {
  const std::vector<State> replies{state_of({1, 4}, {0}, {10}), state_of({2, 3}, {5}, {10}),
                                   state_of({3, 2}, {9}, {12}), state_of({100, 1}, {-70}, {13})};
  FakeFleet fleet({9, 1, 1, 500}, [&](std::int64_t client, const Message&) {
    return Message("train_done")
        .set("model", replies[static_cast<std::size_t>(client)])
        .set("samples", 1U);
  });
  const Setting setting{.seed = 4, .rounds = 1, .clients = 4, .fraction = 1.0, .classes = 3};
  State global = state_of({0, 0}, {0}, {0});
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  Median method;
  method.play(0, server);
  EXPECT_EQ(values_of(global), (std::vector<float>{2.5F, 2.5F, 2.5F, 11}));
}

TEST(Median, HasNoParameters) {
  Median method;
  Params params;
  method.declare(params);
  EXPECT_TRUE(params.all().empty());
}

}  // namespace winnow::median_test
