#include "winnow/method/base/fedexp/fedexp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "method/one_client.h"
#include "method/small_federation.h"
#include "testing/support.h"
#include "winnow/method/base/fedavg/fedavg.h"

namespace winnow::fedexp_test {

using testing::ElementsAre;
using testing::FloatNear;

// spec: rivals 6.3
TEST(FedExpStep, IsTheWorkedNumber) {
  EXPECT_EQ(extrapolation(25, 16, 1e-3), 1.0) << "never below 1";
  EXPECT_NEAR(extrapolation(21.5, .25, 1e-3), 42.828685, 1e-5);
}

// Two clients whose models are what was given.
std::vector<float> after(const State& first, const State& second) {
  const auto method = make_with<FedExp>();
  FakeFleet fleet({5, 5}, [&](std::int64_t client, const Message&) {
    return Message("train_done")
        .set("model", client == 0 ? first : second)
        .set("samples", std::uint32_t{5});
  });
  const Setting setting{.seed = 4, .rounds = 1, .clients = 2, .fraction = 1.0, .classes = 3};
  State global = state_of({0, 0}, {1});
  Json notes = Json::object();
  Server server{setting, fleet, global, notes};
  method->play(0, server);
  EXPECT_GE(notes.at("server_step").get<double>(), 1.0);
  return values_of(global);
}

TEST(FedExp, GoesFartherWhereClientsDisagree) {
  EXPECT_THAT(after(state_of({3, 4}, {1}), state_of({-3, 4}, {3})), ElementsAre(0, 4, 2));
  EXPECT_THAT(after(state_of({3, 4}, {1}), state_of({-3, -3}, {3})),
              ElementsAre(0, FloatNear(21.414343F, 1e-4F), 2))
      << "statistics are averaged";
}

TEST(FedExp, SendsWhatFedAvgSends) {
  FedExp method;
  const SentInARound sent = sent_in_a_round(method);
  FedAvg fedavg;
  EXPECT_EQ(sent.traffic.bytes_up, sent_in_a_round(fedavg).traffic.bytes_up);
  EXPECT_THAT(sent.kinds, ElementsAre("train", "train_done"));
}

}  // namespace winnow::fedexp_test
