#include "winnow/run/notices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "winnow/experiment/toml.h"

namespace winnow::notices_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The notices of a [train] table.
std::vector<std::string> notices(const std::string& train) {
  return train_notices(parse_experiment(parse_toml("[train]\n" + train, "f"), builtin_registry()));
}

TEST(TrainNotices, AKeyThatTheOptimizerDoesNotUseIsNamed) {
  EXPECT_THAT(notices("optimizer = 'adam'\nmomentum = 0.9\nbeta1 = 0.8\neps = 1e-4"),
              ElementsAre("train.momentum = 0.9 has no effect with train.optimizer = \"adam\"; "
                          "only \"sgd\" uses it"));
  EXPECT_THAT(notices("beta1 = 0.8\nbeta2 = 0.99\neps = 0.001\nmomentum = 0.9"),
              ElementsAre("train.beta1 = 0.8 has no effect with train.optimizer = \"sgd\"; only "
                          "\"adam\" and \"adamw\" use it",
                          "train.beta2 = 0.99 has no effect with train.optimizer = \"sgd\"; only "
                          "\"adam\" and \"adamw\" use it",
                          "train.eps = 0.001 has no effect with train.optimizer = \"sgd\"; only "
                          "\"adam\" and \"adamw\" use it"));
}

TEST(TrainNotices, AKeyThatTheScheduleDoesNotUseIsNamed) {
  EXPECT_THAT(notices("lr_min = 0.001\nlr_step_size = 5"),
              ElementsAre("train.lr_step_size = 5 has no effect with train.lr_schedule = "
                          "\"exponential\"; only \"step\" uses it",
                          "train.lr_min = 0.001 has no effect with train.lr_schedule = "
                          "\"exponential\"; only \"cosine\" uses it"));
  EXPECT_THAT(notices("lr_schedule = 'cosine'\nlr_min = 0.001"), IsEmpty());
  EXPECT_THAT(notices("lr_schedule = 'step'\nlr_step_size = 5\nlr_decay = 0.5"), IsEmpty());
}

TEST(TrainNotices, WhatTheUserDidNotSetOrSwitchedOffIsNotNamed) {
  EXPECT_THAT(notices("optimizer = 'adam'"), IsEmpty());
  EXPECT_THAT(notices("optimizer = 'adamw'\nmomentum = 0.0"), IsEmpty());
  EXPECT_THAT(notices("lr_min = 0.0"), IsEmpty());
}

// The experiment of a run directory has every key.
TEST(TrainNotices, ATableWithEveryKeySaysNothing) {
  const Registry registry = builtin_registry();
  const Experiment experiment =
      parse_experiment(parse_toml("[train]\noptimizer = 'adam'\nmomentum = 0.9", "f"), registry);
  EXPECT_EQ(train_notices(experiment).size(), 1U);
  EXPECT_THAT(train_notices(parse_experiment(experiment.resolved(), registry)), IsEmpty());
}

}  // namespace winnow::notices_test
