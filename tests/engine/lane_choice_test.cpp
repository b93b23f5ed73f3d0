#include "winnow/engine/lane_choice.h"

#include <gtest/gtest.h>

namespace winnow::lane_choice_test {

// Three calls, of which the last counts.
void play(LaneChoice& choice, double steps_per_second) {
  choice.note(100, 1e6);
  choice.note(100, 1e6);
  choice.note(100, 100 / steps_per_second);
}

TEST(LaneChoice, GoesOnWhileMoreLanesAreFaster) {
  LaneChoice choice({5, 10, 20});
  EXPECT_EQ(choice.lanes(), 5);
  play(choice, 1000);
  EXPECT_EQ(choice.lanes(), 10);
  play(choice, 1500);
  EXPECT_EQ(choice.lanes(), 20);
  EXPECT_FALSE(choice.settled());
  play(choice, 1600);
  EXPECT_EQ(choice.lanes(), 20);
  EXPECT_TRUE(choice.settled());
}

TEST(LaneChoice, ReturnsToTheNumberBeforeWhenMoreLanesGainNothing) {
  LaneChoice choice({5, 10, 20});
  play(choice, 1000);
  play(choice, 1010);
  EXPECT_EQ(choice.lanes(), 5);
  EXPECT_TRUE(choice.settled());
  play(choice, 9000);
  EXPECT_EQ(choice.lanes(), 5) << "a choice is made once";
}

TEST(LaneChoice, LearnsNothingFromCallsWithoutTraining) {
  LaneChoice choice({5, 10});
  for (int call = 0; call < 10; ++call) {
    choice.note(0, 1.0);
  }
  EXPECT_EQ(choice.lanes(), 5);
  EXPECT_FALSE(choice.settled());
}

TEST(LaneChoice, OfOneNumberIsSettled) {
  LaneChoice choice({3});
  play(choice, 1000);
  EXPECT_EQ(choice.lanes(), 3);
  EXPECT_TRUE(choice.settled());
}

}  // namespace winnow::lane_choice_test
