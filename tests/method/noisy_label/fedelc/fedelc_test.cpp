#include "winnow/method/noisy_label/fedelc/fedelc.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "method/one_client.h"
#include "method/rows.h"
#include "testing/support.h"

namespace winnow::fedelc_test {

using testing::HasSubstr;

const at::Tensor kLogits = rows_of({{1.0F, 0.0F}});
const at::Tensor kLabels = rows_of({{0.0F, 2.0F}});

// spec: rivals 3.2
TEST(FedElcLoss, IsTheWorkedNumber) {
  const auto found =
      fedelc::estimate(kLogits, kLabels, at::tensor({1}, at::kLong), at::tensor({1.0F}), .5, .2);
  EXPECT_NEAR(found.loss.item<double>(), .625105, 1e-5);
  EXPECT_NEAR(found.gradient[0][0].item<double>(), -.246326, 1e-5);
  EXPECT_NEAR(found.gradient[0][1].item<double>(), .246326, 1e-5);
}

// The gradient in the label logits is that of the loss.
TEST(FedElcLoss, HasTheGradientThatAutogradFinds) {
  at::manual_seed(3);
  const at::Tensor logits = at::randn({4, 3});
  at::Tensor labels = at::randn({4, 3}).requires_grad_();
  const at::Tensor given = at::tensor({0, 2, 1, 1}, at::kLong);
  const at::Tensor counted = at::tensor({1.0F, 0.0F, 1.0F, 1.0F});
  const auto found = fedelc::estimate(logits, labels, given, counted, .5, .2);
  found.loss.backward();
  EXPECT_LT((labels.grad() - found.gradient).abs().max().item<double>(), 1e-6);
}

// spec: rivals 3.4
TEST(FedElcLabels, AreMergedWithWhatIsPredicted) {
  const at::Tensor merged = fedelc::merged(kLabels, kLogits.softmax(1), 10);
  EXPECT_NEAR(merged[0][0].item<double>(), 4.251308, 1e-5);
  EXPECT_NEAR(merged[0][1].item<double>(), 5.748692, 1e-5);
}

Message noisy_task(const State& start, std::uint32_t round = 30) {
  return Message("train_noisy").set("round", round).set("model", start);
}

TEST(FedElcClient, LearnsAndRemembersLabels) {
  OneClient client;
  const auto method = make_with<FedElc>();
  const State start = client.initial(1);
  const Message reply = client.handle(*method, noisy_task(start));
  EXPECT_EQ(reply.kind(), "train_noisy_done");
  const at::Tensor first = client.memory.own.tensors.at("fedelc.labels").clone();
  EXPECT_EQ(first.size(0), 12);
  EXPECT_NEAR(first.sum().item<double>(), 12 * 10.0, 1e-3) << "rows sum to K";
  EXPECT_EQ(client.memory.trace.last_labels->size(), 12U);
  client.handle(*method, noisy_task(start, 31));
  EXPECT_FALSE(at::equal(first, client.memory.own.tensors.at("fedelc.labels")));
}

TEST(FedElcClient, HoldsOnToGivenLabelsWithoutSteps) {
  OneClient client;
  const auto method = make_with<FedElc>({{"lambda", 0.0}});
  client.handle(*method, noisy_task(client.initial(1)));
  const at::Tensor labels = client.memory.own.tensors.at("fedelc.labels");
  // Half of K is on the given label before the prediction is added.
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_GT(labels[i][client.held.given[static_cast<std::size_t>(i)]].item<double>(), 4.99);
  }
}

TEST(FedElcClient, MaskingChangesTheLabelsOnly) {
  const auto trained = [](bool masked) {
    OneClient client;
    const Message reply =
        client.handle(*make_with<FedElc>({{"masked", masked}, {"keep", 0.4}, {"lambda", 0.0}}),
                      noisy_task(client.initial(1)));
    return model_hash(reply);
  };
  EXPECT_EQ(trained(true), trained(false)) << "the given labels pull at the learnt ones alone";
}

TEST(FedElcClient, RefusesAForgedTable) {
  OneClient client;
  client.memory.own.tensors["fedelc.labels"] = at::zeros({12, 99});
  ClientContext context(client.kId, client.held, client.memory, client.lane, client.options,
                        client.kSeed);
  EXPECT_THAT(error_text([&] { make_with<FedElc>()->client_side()->check_memory(context); }),
              HasSubstr("tensor 'fedelc.labels' is Float [12, 99], expected Float [12, "));
}

// One model far off among three: the geometric median stays near the others.
TEST(FedElc, TakesTheGeometricMedianWhereItMasks) {
  const auto after = [](bool masked) {
    const auto method = make_with<FedElc>({{"warmup", 1}, {"masked", masked}});
    FakeFleet fleet({5, 5, 5}, [](std::int64_t client, const Message& task) {
      if (task.kind() == "class_losses") {
        return Message("class_losses_done")
            .set("mean", std::vector<double>{1, 1})
            .set("count", std::vector<double>{2, 3});
      }
      return Message("train_done")
          .set("model", state_of({client == 2 ? 100.0F : static_cast<float>(client)}))
          .set("samples", std::uint32_t{5});
    });
    const Setting setting{.seed = 4, .rounds = 3, .clients = 3, .fraction = 1.0, .classes = 2};
    State global = state_of({0});
    Json notes = Json::object();
    Server server{setting, fleet, global, notes};
    method->play(1, server);
    return values_of(global)[0];
  };
  EXPECT_NEAR(after(false), 101.0 / 3, 1e-4);
  EXPECT_LT(after(true), 10.0F);
}

}  // namespace winnow::fedelc_test
