// `winnow arena` on results that are written down here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cli/program.h"
#include "winnow/sweep/results.h"

namespace winnow::arena_command_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kParts = R"(
[[row]]
name = "fedavg"
set = {}
[[row]]
name = "scaffold"
set = { "method.name" = "scaffold" }
[[column]]
name = "clean"
set = { noise = [] }
[[column]]
name = "noisy"
set = {}
[arena]
)";

// The results of every cell but scaffold's on noisy labels.
void write_results_of(const Workshop& shop) {
  std::vector<ResultLine> lines;
  for (const SweepRun& run : load_sweep(shop / "e.toml", {}, builtin_registry()).runs) {
    if (run.id != "scaffold_noisy_s1") {
      lines.push_back({run.row,
                       run.column,
                       run.seed,
                       run.cell,
                       {{"last10", run.row == "fedavg" ? 0.5 : 0.525}}});
    }
  }
  write_file_whole(shop / "r.csv", write_results(lines, {}));
}

TEST(ArenaCommand, RanksTheRunsOfAResultsFileAndDrawsThem) {
  const Workshop shop(kParts);
  write_results_of(shop);
  const Ended ended =
      shop.done({"arena", "e.toml", "--results", "r.csv", "--svg", "a.svg", "--format", "csv"});
  EXPECT_EQ(
      ended.out,
      "method,uses_ground_truth,rank,wins,settings,runs,worst,worst_setting,bytes,seconds,reveals\n"
      "scaffold,,1,1,1,1,2.5,clean,,,control\n"
      "fedavg,,1.5,1,2,2,,,,,\n");
  EXPECT_EQ(ended.err, "a.svg: 2 methods against 2 settings\n");
  EXPECT_THAT(read_file(shop / "a.svg"), StartsWith("<svg "));
  EXPECT_THAT(shop.done({"arena", "e.toml", "--results", "r.csv"}).out,
              HasSubstr("\n1 of 4 cells are missing.\n"));
  EXPECT_THAT(shop.done({"arena", "e.toml", "--results", "r.csv", "--by-setting"}).out,
              HasSubstr("\nscaffold    +2.50      -\n"));
  EXPECT_EQ(shop.done({"arena", "r.csv", "--json"}).json().at("missing"), 1);
}

TEST(ArenaCommand, WhatItCannotReadIsAnErrorThatSaysWhatToDo) {
  const Workshop shop("[grid]\nseed = [1]\n");
  const Ended plain = shop.call({"arena", "e.toml"});
  EXPECT_EQ(plain.code, 5);
  EXPECT_EQ(plain.err,
            "winnow: e.toml is not an arena: its sweep file has no [arena] table\n"
            "  docs/arena.md says how one is made and run\n");
  const Ended nothing = shop.call({"arena", "r.csv"});
  EXPECT_EQ(nothing.code, 5);
  EXPECT_EQ(nothing.err,
            "winnow: r.csv does not exist\n"
            "  give the directory of a sweep, a sweep file or a results file\n");
  write_file_whole(shop / "r.csv", "row,column,seed,cell,last10\na,b,1,c,0.5\n");
  const Ended strange = shop.call({"arena", "r.csv"});
  EXPECT_EQ(strange.code, 5);
  EXPECT_THAT(strange.err, HasSubstr("there is no row 'fedavg', with which an arena compares"));
  EXPECT_THAT(names_in(shop / "."), ElementsAre("e.toml", "r.csv"));
}

// A method is in the arena by being registered, unless it says that it does not compete.
TEST(ArenaCommand, TheArenaHasARowForEveryMethodThatCompetes) {
  const Sweep sweep =
      load_sweep(WINNOW_SOURCE_DIR "/experiments/arena-small.toml", {}, builtin_registry());
  std::set<std::string> expected;
  for (const MethodInfo& info : builtin_methods()) {
    if (info.competes) {
      expected.insert(info.name);
    }
  }
  EXPECT_EQ(expected.size(), builtin_methods().size() - 1) << "the audit is the only one";
  std::set<std::string> rows;
  for (const SweepRun& run : sweep.runs) {
    rows.insert(run.experiment.method);
  }
  EXPECT_EQ(rows, expected);
  EXPECT_EQ(sweep.runs.size(), expected.size() * 21 * 3);
  EXPECT_FALSE(sweep.arena.is_null());
}

}  // namespace winnow::arena_command_test
