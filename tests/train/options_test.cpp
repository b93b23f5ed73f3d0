#include "winnow/train/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/support.h"

namespace winnow::options_test {

TEST(TrainOptions, ReadTheTrainTable) {
  TrainOptions options;
  declare(options).read(Json{{"epochs", 3}, {"lr", 0.03}, {"mixup", 1}}, "train");
  EXPECT_EQ(options.epochs, 3);
  EXPECT_EQ(options.lr, 0.03);
  EXPECT_EQ(options.mixup, 1.0);
  EXPECT_EQ(options.batch_size, 10);
}

TEST(TrainOptions, RefuseImpossibleValues) {
  const auto text = [](const char* key, const Json& value) {
    return error_text([&] {
      TrainOptions options;
      declare(options).read(Json{{key, value}}, "train");
    });
  };
  const std::vector<std::pair<const char*, Json>> wrong{
      {"epochs", 0},           {"batch_size", 0},      {"lr", -0.1},       {"momentum", 1.5},
      {"mixup", -1.0},         {"label_smoothing", 2}, {"temperature", 0}, {"eval_batch", 0},
      {"weight_decay", -1e-4}, {"beta1", 1.0},         {"beta2", -0.1},    {"eps", 0.0},
      {"lr_min", -1},          {"lr_step_size", 0}};
  for (const auto& [key, value] : wrong) {
    EXPECT_THAT(text(key, value), testing::HasSubstr(std::string("train.") + key));
  }
  EXPECT_THAT(
      text("optimizer", "rmsprop"),
      testing::HasSubstr("train.optimizer = \"rmsprop\": expected one of sgd, adam, adamw"));
  EXPECT_THAT(text("lr_schedule", "linear"), testing::HasSubstr("train.lr_schedule = \"linear\""));
  EXPECT_THAT(text("learning_rate", 0.1), testing::HasSubstr("train.learning_rate"));
  EXPECT_THAT(text("momentums", 0.1), testing::HasSubstr("did you mean 'momentum'?"));
}

TEST(LearningRate, DecaysByTheRoundUnlessAScheduleSaysOtherwise) {
  const TrainOptions options{.lr = 0.4, .lr_decay = 0.5};
  EXPECT_EQ(lr_in(options, 0), 0.4);
  EXPECT_EQ(lr_in(options, 3), 0.05);
  EXPECT_EQ(lr_change(options, 3, 5), 0.25);
}

// torch.optim.lr_scheduler.StepLR(step_size=3, gamma=0.1)
TEST(LearningRate, FallsInSteps) {
  const TrainOptions options{.lr = 0.2, .lr_schedule = "step", .lr_decay = 0.1, .lr_step_size = 3};
  const std::vector<double> expected{0.2, 0.2, 0.2, 0.02, 0.02, 0.02, 0.002};
  for (std::size_t round = 0; round < expected.size(); ++round) {
    EXPECT_NEAR(lr_in(options, static_cast<std::int64_t>(round)), expected[round], 1e-15);
  }
  EXPECT_NEAR(lr_change(options, 1, 6), 0.01, 1e-15);
}

// torch.optim.lr_scheduler.CosineAnnealingLR(T_max=4, eta_min=0.1): halves of 1 + cos of quarters
// of pi, and what comes after stays at the end.
TEST(LearningRate, FollowsACosineOverTheRun) {
  const TrainOptions options{.lr = 0.5, .lr_schedule = "cosine", .lr_min = 0.1, .rounds = 4};
  const std::vector<double> expected{0.5, 0.44142135623730951, 0.3, 0.15857864376269049, 0.1, 0.1};
  for (std::size_t round = 0; round < expected.size(); ++round) {
    EXPECT_NEAR(lr_in(options, static_cast<std::int64_t>(round)), expected[round], 1e-15);
  }
  EXPECT_NEAR(lr_change(options, 0, 2), 0.6, 1e-15);
  TrainOptions flat = options;
  flat.lr = flat.lr_min = 0.0;
  EXPECT_EQ(lr_change(flat, 0, 2), 1.0) << "nothing changes where nothing is learnt";
}

TEST(LearningRate, KeysThatContradictEachOtherAreRefused) {
  const auto text = [](const TrainOptions& options) { return error_text([&] { check(options); }); };
  EXPECT_EQ(text({.lr_schedule = "cosine", .lr_decay = 0.9}),
            "train.lr_decay = 0.9: lr_schedule = \"cosine\" does not use it | remove it, or choose "
            "\"exponential\" or \"step\"");
  EXPECT_EQ(text({.lr = 0.01, .lr_schedule = "cosine", .lr_min = 0.1}),
            "train.lr_min = 0.1: expected at most train.lr = 0.01");
  EXPECT_EQ(text({.lr = 0.01, .lr_decay = 0.9, .lr_min = 0.1}), "no error");
}

}  // namespace winnow::options_test
