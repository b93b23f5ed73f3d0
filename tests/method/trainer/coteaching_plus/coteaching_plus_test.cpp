#include "winnow/method/trainer/coteaching_plus/coteaching_plus.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "method/one_client.h"
#include "method/rows.h"
#include "method/small_federation.h"
#include "testing/support.h"

namespace winnow::coteaching_plus_test {

using testing::ElementsAre;

const at::Tensor kFirst = rows_of({{1.0F, 0.0F}, {1.0F, 0.0F}, {0.0F, 1.0F}});

// spec: rivals 6.5
TEST(Disagreement, IsWhereTheClassesDiffer) {
  const at::Tensor second = rows_of({{1.0F, 0.0F}, {0.0F, 1.0F}, {1.0F, 0.0F}});
  EXPECT_THAT(values_of(disagreement(kFirst, second)), ElementsAre(0, 1, 1));
  EXPECT_THAT(values_of(disagreement(kFirst, kFirst)), ElementsAre(1, 1, 1))
      << "all, where none is";
}

TEST(PassedAmong, AreTheSmallestLossesInDispute) {
  const at::Tensor losses = at::tensor({.1F, .4F, .3F, .2F});
  const at::Tensor candidates = at::tensor({0.0F, 1.0F, 1.0F, 1.0F});
  EXPECT_THAT(values_of(passed_among(losses, candidates, at::tensor({.7F}))),
              ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(values_of(passed_among(losses, candidates, at::tensor({.1F}))),
              ElementsAre(0, 0, 0, 1))
      << "at least one";
}

TEST(CoTeachingPlus, TrainsTwoModelsAndWarmsUp) {
  OneClient client;
  const auto method = make_with<CoTeachingPlus>({{"warmup", 1}, {"ramp", 1}, {"forget_rate", .4}});
  const State first = client.initial(1);
  const State second = client.initial(2);
  const Message warm = client.train(*method, 0, first, second);
  EXPECT_EQ(model_hash(warm), hash(client.plain(first, 0)));
  EXPECT_EQ(model_hash(warm, "second"), hash(client.plain(second, 0)));
  EXPECT_FALSE(client.memory.trace.selected);
  const Message later = client.train(*method, 1, first, second);
  EXPECT_NE(model_hash(later), hash(client.plain(first, 1)));
  EXPECT_EQ(client.memory.trace.selected->size(), 12U);
  EXPECT_EQ(notes_of_twins(*method, 5).at("forget_rate"), .4);
}

TEST(CoTeachingPlus, RefusesARunThatIsAllWarmUp) {
  EXPECT_EQ(
      error_text([] { make_with<CoTeachingPlus>()->check({.rounds = 20}); }),
      "method.warmup = 20: expected fewer than the 20 rounds of the run | a run that ends with "
      "its warm-up trusts all labels");
}

}  // namespace winnow::coteaching_plus_test
