#include "winnow/base/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace winnow::csv_test {

using ::testing::ElementsAre;

TEST(Csv, AFieldIsQuotedWhereItMustBe) {
  EXPECT_EQ(csv_field(""), "");
  EXPECT_EQ(csv_field("S=2"), "S=2");
  EXPECT_EQ(csv_field("a, b"), "\"a, b\"");
  EXPECT_EQ(csv_field("say \"x\""), "\"say \"\"x\"\"\"");
}

TEST(Csv, ALineIsReadBack) {
  EXPECT_THAT(split_csv("a,,c"), ElementsAre("a", "", "c"));
  EXPECT_THAT(split_csv(csv_field("x, \"y\"") + ",z"), ElementsAre("x, \"y\"", "z"));
  EXPECT_THAT(split_csv(""), ElementsAre(""));
}

}  // namespace winnow::csv_test
