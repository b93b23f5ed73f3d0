#include "winnow/method/trainer/feddecorr/feddecorr.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "method/one_client.h"
#include "method/rows.h"
#include "testing/support.h"

namespace winnow::feddecorr_test {

// spec: rivals 6.6
TEST(CorrelationPenalty, IsTheWorkedNumber) {
  const at::Tensor equal = rows_of({{1.0F, 1.0F}, {2.0F, 2.0F}, {3.0F, 3.0F}});
  EXPECT_NEAR(correlation_penalty(equal).item<double>(), 1.0, 1e-5);
  const at::Tensor apart = rows_of({{1.0F, 1.0F}, {1.0F, -1.0F}, {-1.0F, 1.0F}, {-1.0F, -1.0F}});
  EXPECT_NEAR(correlation_penalty(apart).item<double>(), .5, 1e-5);
}

TEST(CorrelationPenalty, IsFiniteForFeaturesThatDoNotVary) {
  EXPECT_EQ(correlation_penalty(at::ones({4, 3})).item<double>(), 0.0);
  EXPECT_EQ(correlation_penalty(at::ones({1, 3})).item<double>(), 0.0) << "a batch of one";
}

TEST(FedDecorr, IsFedAvgWithoutItsTerm) {
  OneClient client;
  const State start = client.initial(1);
  EXPECT_EQ(model_hash(client.train(*make_with<FedDecorr>({{"beta", 0}}), 2, start)),
            hash(client.plain(start, 2)));
  EXPECT_NE(model_hash(client.train(*make_with<FedDecorr>(), 2, start)),
            hash(client.plain(start, 2)));
  EXPECT_TRUE(make_with<FedDecorr>()->needs_features());
}

}  // namespace winnow::feddecorr_test
