#include "winnow/method/trainer/sce/sce.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "method/one_client.h"
#include "winnow/train/loss.h"

namespace winnow::sce::sce_test {

constexpr double kBound = 9.210340;

at::Tensor label(std::int64_t value) {
  return at::full({1}, value, at::kLong);
}

double rce(std::vector<float> logits, std::int64_t of) {
  return reverse_cross_entropies(at::tensor(logits).view({1, -1}), label(of)).item<double>();
}

// What the objective makes of one row of logits, which a linear network passes on.
double objective(double alpha, double beta, const std::vector<float>& logits, const Batch& labels) {
  const auto classes = static_cast<std::int64_t>(logits.size());
  LinearNet net({classes, 1, 1, classes});
  State weights = State::zeros(net.weights().layout());
  weights.view(*weights.layout->find("fc.weight")).copy_(at::eye(classes));
  net.weights().bind(weights.flat, {});
  Batch batch = labels;
  batch.images = at::tensor(logits).view({1, 1, 1, classes});
  return SymmetricCrossEntropy(alpha, beta, {})
      .loss(batch, {.nets = {&net}, .training = {}})
      .item<double>();
}

// spec: baselines 25
TEST(Sce, WorkedNumbers) {
  EXPECT_NEAR(rce({2, 1, 0}, 0), 3.083245, 1e-5);
  const Batch batch{.images = {}, .labels = label(0)};
  EXPECT_NEAR(objective(1, 0, {2, 1, 0}, batch), 0.407606, 1e-6);
  EXPECT_NEAR(objective(0, 1, {2, 1, 0}, batch), 3.083245, 1e-5);
  EXPECT_NEAR(objective(0.1, 1, {2, 1, 0}, batch), 3.124005, 1e-5);
}

// spec: baselines 25
TEST(Sce, TheReverseCrossEntropyIsBounded) {
  EXPECT_NEAR(rce({500, 0, 0}, 0), 0.0, 1e-5) << "sure and right";
  EXPECT_NEAR(rce({500, 0, 0}, 1), kBound, 1e-4) << "sure and wrong";
  for (const float z : {-3.0F, 0.0F, 0.5F, 4.0F}) {
    const double p = at::tensor(std::vector<float>{z, 1, 0}).softmax(0)[0].item<double>();
    EXPECT_NEAR(rce({z, 1, 0}, 0), kBound * (1 - p), 1e-5);
    EXPECT_LE(rce({z, 1, 0}, 0), kBound);
  }
}

// spec: baselines 25, T3
TEST(Sce, WithoutTheReversePartItIsFedAvgBitForBit) {
  OneClient<NormNet> client;
  const State start = client.initial(1);
  const auto neutral = make_with<Sce>({{"alpha", 1.0}, {"beta", 0.0}});
  const Message reply = client.train(*neutral, 3, start);
  EXPECT_EQ(model_hash(reply), hash(client.plain(start, 3)));
  EXPECT_EQ(reply.get<std::uint32_t>("samples"), 12U);
  EXPECT_EQ(client.steps, 6);
  EXPECT_TRUE(client.memory.empty());
  EXPECT_NE(model_hash(client.train(*make_with<Sce>(), 3, start)), hash(client.plain(start, 3)));
}

TEST(Sce, MixtureOfTwoSamplesHasTheMixtureOfTheirLosses) {
  const auto alone = [](std::int64_t of) {
    return objective(0.1, 1, {2, 1, 0}, {.images = {}, .labels = label(of)});
  };
  const Batch mixed{
      .images = {}, .labels = label(0), .partner_labels = label(2), .lambda = at::full({}, 0.25F)};
  EXPECT_NEAR(objective(0.1, 1, {2, 1, 0}, mixed), 0.25 * alone(0) + 0.75 * alone(2), 1e-5);
}

TEST(Sce, StepsOfDifferentWeightsAreDifferentSteps) {
  EXPECT_NE(SymmetricCrossEntropy(0.1, 1, {}).signature(),
            SymmetricCrossEntropy(0.2, 1, {}).signature());
  EXPECT_NE(SymmetricCrossEntropy(0.1, 1, {}).signature(), CrossEntropy({}).signature());
}

TEST(Sce, SendsWhatFedAvgSends) {
  OneClient client;
  const State start = client.initial(1);
  EXPECT_EQ(client.train(*make_with<Sce>(), 0, start).bytes(), start.bytes() + 4);
  EXPECT_EQ(sce_info().group, "local trainer");
  EXPECT_EQ(error_text([] {
              make_with<Sce>({{"beta", -1.0}});
            }),
            "method.beta = -1.0: expected a number >= 0 | weight of the reverse cross-entropy; 0 "
            "with alpha = 1: FedAvg");
}

// spec: baselines 25
TEST(Sce, HasTheSpecsDefaults) {
  EXPECT_EQ(defaults_of<Sce>(), (Json{{"alpha", 0.1}, {"beta", 1.0}}));
}

}  // namespace winnow::sce::sce_test
