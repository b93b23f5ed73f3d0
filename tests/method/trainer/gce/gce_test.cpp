#include "winnow/method/trainer/gce/gce.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "method/one_client.h"
#include "method/rows.h"
#include "testing/support.h"

namespace winnow::gce_test {

using testing::HasSubstr;

// Two classes with the probability p of class 0.
at::Tensor logits_of(double p) {
  return rows_of({{static_cast<float>(std::log(p / (1 - p))), 0.0F}});
}
const at::Tensor kZero = at::tensor({0}, at::kLong);

// spec: rivals 6.2
TEST(BoundedLosses, AreTheWorkedNumbers) {
  EXPECT_NEAR(generalised_cross_entropies(logits_of(.5), kZero, .7).item<double>(), .549183, 1e-5);
  EXPECT_NEAR(generalised_cross_entropies(logits_of(.25), kZero, .7).item<double>(), .887244, 1e-5);
  EXPECT_NEAR(absolute_errors(logits_of(.5), kZero).item<double>(), 1.0, 1e-6);
  EXPECT_NEAR(absolute_errors(logits_of(.25), kZero).item<double>(), 1.5, 1e-6);
}

TEST(BoundedLosses, MeetAtTheEnds) {
  EXPECT_NEAR(2 * generalised_cross_entropies(logits_of(.3), kZero, 1.0).item<double>(),
              absolute_errors(logits_of(.3), kZero).item<double>(), 1e-6);
  EXPECT_NEAR(generalised_cross_entropies(logits_of(.3), kZero, .001).item<double>(), -std::log(.3),
              2e-3);
}

TEST(BoundedLosses, HaveAFiniteGradientWhereTheLabelIsHopeless) {
  at::Tensor logits = rows_of({{-200.0F, 0.0F}}).requires_grad_();
  generalised_cross_entropies(logits, kZero, .7).sum().backward();
  EXPECT_TRUE(logits.grad().isfinite().all().item<bool>());
}

TEST(Gce, TrainsWithItsLoss) {
  OneClient client;
  const State start = client.initial(1);
  const Message gce = client.train(*make_with<Gce>(), 0, start);
  EXPECT_NE(model_hash(gce), hash(client.plain(start, 0)));
  EXPECT_NE(model_hash(gce), model_hash(client.train(*make_with<Mae>(), 0, start)));
  EXPECT_TRUE(client.memory.empty());
  EXPECT_THAT(error_text([] { make_with<Gce>({{"q", 0.0}}); }), HasSubstr("method.q"));
}

}  // namespace winnow::gce_test
