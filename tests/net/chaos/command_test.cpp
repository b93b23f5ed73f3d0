#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"
#include "winnow/net/chaos/rows.h"

namespace winnow::chaos_command_test {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(ChaosCommand, TheTableHasTwentyFiveRows) {
  const std::vector<chaos::Row>& rows = chaos::rows();
  ASSERT_EQ(rows.size(), 25U);
  for (int number = 1; number <= 25; ++number) {
    EXPECT_EQ(rows[static_cast<std::size_t>(number) - 1].number, number);
  }
  const Workshop shop;
  const Ended listed = shop.done({"chaos", "--list"});
  EXPECT_EQ(lines(listed.out), 50U);
  EXPECT_THAT(listed.out, HasSubstr(" 7  a bit flipped under TLS\n"));
}

TEST(ChaosCommand, WrongUsageIsSaidInOneLine) {
  const Workshop shop;
  const Ended beyond = shop.call({"chaos", "--only", "26"});
  EXPECT_EQ(beyond.code, 2);
  EXPECT_THAT(beyond.err, HasSubstr("--only: Value 26 not in range"));
  std::filesystem::create_directory(shop / "there");
  const Ended there = shop.call({"chaos", "--only", "12", "--keep", "there"});
  EXPECT_EQ(there.code, 2);
  EXPECT_EQ(there.err,
            "winnow: --keep there already exists\n  name a folder that does not exist yet\n");
}

// scripts/nightly plays all rows; these are a fault of the line and one of a member.
TEST(ChaosCommand, RowsPassAndLeaveWhatWasSaid) {
  const Workshop shop;
  const Ended ended = shop.call({"chaos", "--only", "7,12", "--keep", "kept"});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_THAT(ended.out,
              AllOf(ContainsRegex("\n12  passed +[0-9.]+ s  stale round"),
                    HasSubstr("seen:     wrong_round, wrong_nonce, not_asked; same model"),
                    ContainsRegex("2 passed, 0 failed, 0 skipped in [0-9]+ s\n$")));
  EXPECT_THAT(names_in(shop / "kept"),
              ::testing::IsSupersetOf({"authority", "pki", "row-07", "row-12"}));
  EXPECT_TRUE(std::filesystem::exists(shop / "kept/row-12/served/network.jsonl"));
}

// A server that dies of something else than the fault.
TEST(ChaosCommand, ARowThatFailsSaysWhatWasSeen) {
  const Workshop shop;
  const Ended ended =
      winnow_program({"chaos", "--only", "7"}, shop.place({"WINNOW_FAILPOINT=after_fold"}));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, AllOf(ContainsRegex("^ 7  FAILED +[0-9.]+ s  a bit flipped under TLS\n"),
                               HasSubstr("seen:     the server ended with 137\n"),
                               ContainsRegex("\n0 passed, 1 failed, 0 skipped in [0-9]+ s\n$")));
  EXPECT_THAT(ended.err, HasSubstr("run it again with --only N --keep DIR"));
}

}  // namespace winnow::chaos_command_test
