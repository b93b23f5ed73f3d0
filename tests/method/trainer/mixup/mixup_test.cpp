#include "winnow/method/trainer/mixup/mixup.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "method/one_client.h"
#include "winnow/train/soft_loss.h"

namespace winnow::mixup_test {

// Three probabilities with the cross-entropies .5 and 1.2 for the first two classes.
const std::vector<float>& logits() {
  static const std::vector<float> kLogits = [] {
    const double first = std::exp(-0.5);
    const double second = std::exp(-1.2);
    return std::vector<float>{-0.5F, -1.2F, static_cast<float>(std::log(1 - first - second))};
  }();
  return kLogits;
}

// The loss of a sample of class 0 mixed with one of class 1.
double mixed_loss(double lambda) {
  LinearNet net({3, 1, 1, 3});
  State weights = State::zeros(net.weights().layout());
  weights.view(*weights.layout->find("fc.weight")).copy_(at::eye(3));
  net.weights().bind(weights.flat, {});
  const Batch batch{.images = at::tensor(logits()).view({1, 1, 1, 3}),
                    .labels = at::zeros({1}, at::kLong),
                    .partner_labels = at::ones({1}, at::kLong),
                    .lambda = at::full({}, lambda, at::kFloat)};
  return CrossEntropy({}).loss(batch, {.nets = {&net}, .training = {}}).item<double>();
}

// spec: baselines 26
TEST(Mixup, WorkedNumbers) {
  EXPECT_NEAR(mixed_loss(0.3), 0.99, 1e-6);
  EXPECT_NEAR(mixed_loss(1.0), 0.5, 1e-6) << "plain cross-entropy";
  const at::Tensor targets = at::tensor(std::vector<float>{0.3F, 0.7F, 0}).view({1, 3});
  EXPECT_NEAR(soft_cross_entropies(at::tensor(logits()).view({1, 3}), targets).item<double>(), 0.99,
              1e-6)
      << "the same as a soft label";
}

TEST(Mixup, TrainsOnMixtures) {
  OneClient<NormNet> client;
  const State start = client.initial(1);
  const Message reply = client.train(*make_with<Mixup>(), 3, start);
  EXPECT_NE(model_hash(reply), hash(client.plain(start, 3)));
  client.options.mixup = 1.0;
  EXPECT_EQ(model_hash(reply), hash(client.plain(start, 3)));
  EXPECT_EQ(reply.bytes(), start.bytes() + 4);
  EXPECT_TRUE(client.memory.empty());
  EXPECT_EQ(client.steps, 6);
}

// spec: baselines T3
TEST(Mixup, WithoutMixturesItIsFedAvgBitForBit) {
  OneClient client;
  const State start = client.initial(1);
  EXPECT_EQ(model_hash(client.train(*make_with<Mixup>({{"alpha", 0.0}}), 3, start)),
            hash(client.plain(start, 3)));
}

TEST(Mixup, ReplacesTheOptionOfTheExperiment) {
  OneClient client;
  const State start = client.initial(1);
  const std::string expected = model_hash(client.train(*make_with<Mixup>(), 3, start));
  client.options.mixup = 0.2;
  EXPECT_EQ(model_hash(client.train(*make_with<Mixup>(), 3, start)), expected);
}

TEST(Mixup, RefusesANegativeAlpha) {
  EXPECT_EQ(error_text([] {
              make_with<Mixup>({{"alpha", -0.5}});
            }),
            "method.alpha = -0.5: expected a number >= 0 | alpha of the Beta(alpha, alpha) "
            "distribution of mixup weights; 0: FedAvg; replaces train.mixup");
}

}  // namespace winnow::mixup_test
