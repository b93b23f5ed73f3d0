#include "winnow/method/trainer/coteaching/coteaching.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "method/one_client.h"
#include "method/small_federation.h"
#include "winnow/method/local_training.h"
#include "winnow/train/loss.h"

namespace winnow::coteaching::coteaching_test {

at::Tensor count(std::int64_t value) {
  return at::full({1}, value, at::kLong);
}

// spec: baselines 21
TEST(CoTeaching, EachLearnsFromWhatTheOtherFindsEasy) {
  const at::Tensor first = at::tensor(std::vector<float>{.2F, 1.5F, .3F, .9F});
  const at::Tensor second = at::tensor(std::vector<float>{.4F, .1F, 2, .8F});
  EXPECT_EQ(passed_on(4, 0.5), 2);
  const auto [one, other, passed] = exchanged_losses(first, second, count(2));
  EXPECT_NEAR(one.item<double>(), 0.85, 1e-6);
  EXPECT_NEAR(other.item<double>(), 1.2, 1e-6);
  EXPECT_TRUE(passed.equal(at::tensor(std::vector<float>{1, 1, 0, 0}))) << "what the second likes";
}

// spec: baselines 21
TEST(CoTeaching, TheForgetRateRisesInAStraightLine) {
  EXPECT_EQ(forget_rate_in(0, 0.2, 100), 0.0);
  EXPECT_NEAR(forget_rate_in(1, 0.2, 100), 0.00202, 1e-6);
  EXPECT_NEAR(forget_rate_in(99, 0.2, 100), 0.2, 1e-12);
  EXPECT_EQ(forget_rate_in(100, 0.2, 100), 0.2);
  EXPECT_EQ(forget_rate_in(0, 0.2, 1), 0.0);
  EXPECT_EQ(forget_rate_in(1, 0.2, 1), 0.2);
  EXPECT_EQ(forget_rate_in(0, 0.2, 0), 0.2);
}

// spec: baselines 21
TEST(CoTeaching, KeepsTheWholeNumberOfSamplesBelowTheShare) {
  EXPECT_EQ(passed_on(50, 0.2), 40);
  EXPECT_EQ(passed_on(50, 0.0), 50);
  EXPECT_EQ(passed_on(9, 0.2), 7);
  EXPECT_EQ(passed_on(10, 0.3), 7) << "not 6 for rounding";
  EXPECT_EQ(passed_on(1, 0.2), 0);
  EXPECT_EQ(passed_on(5, 1.0), 0);
}

// spec: baselines 21
TEST(CoTeaching, WithoutForgettingBothModelsAreFedAvgs) {
  OneClient<NormNet> client;
  const State first = client.initial(1);
  const State second = client.initial(2);
  const auto check = [&](const Method& method, std::int64_t round) {
    const Message reply = client.train(method, round, first, second);
    EXPECT_EQ(model_hash(reply), hash(client.plain(first, round)));
    EXPECT_EQ(model_hash(reply, "second"), hash(client.plain(second, round)));
    EXPECT_EQ(client.steps, 12) << "those of both";
  };
  check(*make_with<CoTeaching>({{"forget_rate", 0.0}}), 3);
  check(*make_with<CoTeaching>(), 0);
  EXPECT_TRUE(client.memory.empty());
}

// spec: baselines 21
TEST(CoTeaching, IdenticalModelsStayIdentical) {
  OneClient<NormNet> client;
  const auto method = make_with<CoTeaching>({{"forget_rate", 0.4}, {"ramp", 0}});
  const State start = client.initial(1);
  const Message reply = client.train(*method, 2, start, start);
  EXPECT_EQ(model_hash(reply), model_hash(reply, "second"));
  EXPECT_NE(model_hash(reply), hash(client.plain(start, 2)));
  EXPECT_EQ(client.steps, 12);
}

TEST(CoTeaching, AStepTakesAsManySamplesAsItsBatchAllows) {
  OneClient client({.epochs = 1, .batch_size = 5});
  const State first = client.initial(1);
  const State second = client.initial(2);
  const Plan plan = make_plan(client.set(), client.options, false, {1, 2, 3});
  const std::vector<std::int64_t> counts{4, 3, 1};
  const Buffers buffers{fill(client.lane.trainer(), "counts", at::tensor(counts)),
                        fill(client.lane.trainer(), "place", plan.place),
                        fill(client.lane.trainer(), "passed", at::zeros({12}, at::kByte))};
  const Objective objective(buffers, {});
  client.lane.trainer().begin({first, second}, {1, 2, 3});
  const at::Tensor measured =
      client.lane.trainer().run(plan, objective, {.lr = 0.0, .models = {0, 1}});
  const std::span<const std::int64_t> index(plan.index.data_ptr<std::int64_t>(), 12);
  const at::Tensor one = losses(client.lane.scorer().logits(client.feed, index, 12), plan.label);
  const at::Tensor other =
      losses(client.lane.scorer().logits(client.feed, index, 12, {}, 1), plan.label);
  for (std::size_t step = 0; step < 3; ++step) {
    const auto [start, size, opens] = plan.batches[step];
    const auto [a, b, passed] = exchanged_losses(one.narrow(0, start, size),
                                                 other.narrow(0, start, size), count(counts[step]));
    EXPECT_NEAR(measured[static_cast<std::int64_t>(step)].item<double>(), (a + b).item<double>(),
                1e-5);
    const at::Tensor places = plan.place.narrow(0, start, size);
    EXPECT_TRUE(buffers.passed.index_select(0, places).to(at::kFloat).equal(passed));
  }
}

TEST(CoTeaching, RemembersWhatTheFirstModelLearntFromInTheLastEpoch) {
  // Two batches of four and one of a single sample, of which 0.5 is none: 2 + 2 + 0.
  OneClient client({.epochs = 3, .batch_size = 4}, 9);
  const auto method = make_with<CoTeaching>({{"ramp", 2}, {"forget_rate", 0.5}});
  const State first = client.initial(1);
  const State second = client.initial(2);
  client.train(*method, 2, first, second);
  ASSERT_TRUE(client.memory.trace.selected);
  EXPECT_EQ(client.memory.trace.selected->size(), 9U);
  EXPECT_EQ(std::ranges::count(*client.memory.trace.selected, true), 4);
  client.train(*method, 0, first, second);
  EXPECT_TRUE(client.memory.empty()) << "in round 0 of the ramp nothing is chosen";
}

TEST(CoTeaching, ABatchOfWhichNothingIsLeftIsSkipped) {
  // Two batches of four and one of a single sample, of which 0.8 is none.
  OneClient client({.epochs = 2, .batch_size = 4, .momentum = 0.9}, 9);
  const auto method = make_with<CoTeaching>({{"ramp", 0}});
  const State first = client.initial(1);
  const State second = client.initial(2);
  client.train(*method, 1, first, second);
  EXPECT_EQ(client.steps, 2 * 2 * 2);
  client.options.batch_size = 1;
  const Message reply = client.train(*method, 1, first, second);
  EXPECT_EQ(model_hash(reply), hash(first));
  EXPECT_EQ(model_hash(reply, "second"), hash(second));
  EXPECT_EQ(client.steps, 0);
}

TEST(CoTeaching, NotesHowMuchIsForgotten) {
  const auto method = make_with<CoTeaching>({{"ramp", 3}});
  EXPECT_NEAR(notes_of_twins(*method, 1).at("forget_rate").get<double>(), 0.1, 1e-12);
}

TEST(CoTeaching, RefusesAShareOutsideItsRange) {
  EXPECT_EQ(error_text([] {
              make_with<CoTeaching>({{"forget_rate", 1.5}});
            }),
            "method.forget_rate = 1.5: expected a number from 0 to 1 | share of every batch that "
            "is left out as noisy once the ramp ends; 0: two FedAvg models");
}

// spec: baselines 21
TEST(CoTeaching, HasTheSpecsDefaults) {
  EXPECT_EQ(defaults_of<CoTeaching>(), (Json{{"forget_rate", 0.2}, {"ramp", 100}}));
}

}  // namespace winnow::coteaching::coteaching_test
