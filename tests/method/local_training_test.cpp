#include "winnow/method/local_training.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "method/one_client.h"

namespace winnow::local_training_test {

TEST(LocalTraining, TrainsAsTheContextDoesWithTheSameObjective) {
  for (const bool augment : {false, true}) {
    OneClient<NormNet> client({.epochs = 2,
                               .batch_size = 5,
                               .lr = 0.1,
                               .lr_decay = 0.5,
                               .momentum = 0.9,
                               .weight_decay = 0.01,
                               .mixup = 1.0},
                              12, augment);
    const State start = client.initial(1);
    ClientContext context(7, client.held, client.memory, client.lane, client.options, 5);
    const State trained = context.train_by(CrossEntropy(client.options), start, 3);
    EXPECT_EQ(context.steps(), 6);
    const TrainingLoss loss = context.loss();
    EXPECT_EQ(hash(trained), hash(client.plain(start, 3)));
    ClientContext other(7, client.held, client.memory, client.lane, client.options, 5);
    const TrainOutcome plain = other.train(start, 3, {});
    EXPECT_EQ(other.loss().samples, 24) << "12 samples, two epochs";
    EXPECT_EQ(loss.samples, 24);
    EXPECT_DOUBLE_EQ(other.loss().mean().value(), plain.mean_loss);
    EXPECT_DOUBLE_EQ(loss.mean().value(), plain.mean_loss);
  }
}

TEST(LocalTraining, WithoutSamplesNothingHappens) {
  OneClient client({}, 0);
  const State start = client.initial(1);
  ClientContext context(7, client.held, client.memory, client.lane, client.options, 5);
  EXPECT_EQ(hash(context.train_by(CrossEntropy(client.options), start, 0)), hash(start));
  EXPECT_EQ(context.steps(), 0);
  EXPECT_EQ(context.train(start, 0, {}).steps, 0);
  EXPECT_EQ(context.loss().mean(), std::nullopt);
}

TEST(LocalTraining, FillsTheBeginningOfABuffer) {
  OneClient client;
  const at::Tensor three = at::arange(6, at::kLong).view({3, 2});
  const at::Tensor buffer = fill(client.lane.trainer(), "table", three);
  ASSERT_GE(buffer.size(0), 3);
  EXPECT_TRUE(buffer.narrow(0, 0, 3).equal(three));
  fill(client.lane.trainer(), "table", at::full({1, 2}, 9, at::kLong));
  EXPECT_EQ(numbers_of(buffer.narrow(0, 0, 2)), (std::vector<std::int64_t>{9, 9, 2, 3}));
  const at::Tensor rows = first_rows(buffer, 2);
  buffer.zero_();
  EXPECT_EQ(numbers_of(rows), (std::vector<std::int64_t>{9, 9, 2, 3})) << "a copy";
}

TEST(LocalTraining, BatchesLeaveAPlanWithTheirEntries) {
  OneClient client({}, 5, true);
  const Plan plan = make_plan(client.set(), {.epochs = 2, .batch_size = 2}, true, {1, 2, 3}, 2);
  ASSERT_EQ(plan.batches.size(), 6U);
  const Plan rest = without(plan, {false, false, true, false, true, false});
  const at::Tensor kept = at::tensor(std::vector<std::int64_t>{0, 1, 2, 3, 5, 6, 9});
  EXPECT_TRUE(rest.index.equal(plan.index.index_select(0, kept)));
  EXPECT_TRUE(rest.place.equal(plan.place.index_select(0, kept)));
  EXPECT_TRUE(rest.label.equal(plan.label.index_select(0, kept)));
  EXPECT_TRUE(
      rest.jitter.narrow(0, 7, 7).equal(plan.jitter.narrow(0, 10, 10).index_select(0, kept)))
      << "the second view";
  std::vector<std::int64_t> starts;
  for (const Plan::Batch& batch : rest.batches) {
    starts.push_back(batch.start);
  }
  EXPECT_EQ(starts, (std::vector<std::int64_t>{0, 2, 4, 6}));
  EXPECT_TRUE(rest.batches[2].opens_epoch);
  EXPECT_EQ(without(plan, std::vector<bool>(6, true)).entries(), 0);
}

TEST(LocalTraining, RefusesAWarmUpThatLastsToTheEnd) {
  EXPECT_NO_THROW(check_warmup(9, {.rounds = 10}));
  EXPECT_EQ(error_text([] { check_warmup(10, {.rounds = 10}); }),
            "method.warmup = 10: expected fewer than the 10 rounds of the run | a run that ends "
            "with its warm-up trusts all labels");
}

}  // namespace winnow::local_training_test
