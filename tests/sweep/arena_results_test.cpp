#include "winnow/sweep/arena_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/small_run.h"
#include "winnow/run/runner.h"
#include "winnow/sweep/report_data.h"
#include "winnow/sweep/results.h"
#include "winnow/sweep/sweep_index.h"

namespace winnow::arena_results_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

constexpr const char* kMethods = "methods = [\"fedprox\", \"fedavg\"]\n";
constexpr const char* kGrid = R"([schedule]
fedprox = { "method.mu" = 0.5 }
[[column]]
name = "clean"
set = { noise = [] }
[[column]]
name = "noisy"
set = {}
)";

// A sweep file in a folder of its own.
class ArenaFile {
 public:
  explicit ArenaFile(const std::string& arena = "[arena]\n") {
    write_file_whole(path(), kMethods + std::string(small_toml()) + kGrid + arena);
  }
  fs::path path() const { return folder_ / "a.toml"; }
  fs::path operator/(const std::string& name) const { return folder_ / name; }
  std::string error() const {
    const std::string text = error_text([&] { load_sweep(path(), {}, builtin_registry()); });
    return text.substr(text.find("a.toml: ") + 8);
  }
  Sweep load() const { return load_sweep(path(), {}, builtin_registry()); }

  // Results of all cells but one.
  fs::path results() const {
    std::vector<ResultLine> lines;
    double value = 0.5;
    const Sweep sweep = load();
    for (const SweepRun& run : sweep.runs) {
      if (run.id != "fedavg_noisy_s1") {
        lines.push_back({run.row, run.column, run.seed, run.cell, {{"last10", value}}});
      }
      value += 0.1;
    }
    write_file_whole(folder_ / "r.csv", write_results(lines, {}));
    return folder_ / "r.csv";
  }

 private:
  TestFolder folder_;
};

std::vector<std::string> fields(const std::string& method, const Json& params = Json::object()) {
  std::vector<std::string> names;
  for (const Revealed& one : revealed_by(method, params, builtin_registry())) {
    names.push_back(one.field);
  }
  return names;
}

TEST(ArenaRule, HasDefaultsAndRefusesWhatItDoesNotKnow) {
  EXPECT_EQ(ArenaFile().load().arena, Json({{"metric", "last10"}, {"reference", "fedavg"}}));
  EXPECT_EQ(ArenaFile("[arena]\nmetric = \"best\"\nreference = \"fedprox\"\n").load().arena,
            Json({{"metric", "best"}, {"reference", "fedprox"}}));
  EXPECT_EQ(ArenaFile("[arena]\nmetric = \"bets\"\n").error(),
            "arena.metric = \"bets\": expected an accuracy | did you mean 'best'?");
  EXPECT_EQ(ArenaFile("[arena]\nreference = \"fedavgm\"\n").error(),
            "arena.reference = \"fedavgm\": there is no such row | did you mean 'fedavg'?");
  EXPECT_EQ(ArenaFile("[arena]\nseeds = 3\n").error(),
            "arena: unexpected 'seeds' | [arena] takes metric = \"last10\" and reference = "
            "\"fedavg\"");
}

TEST(Revealed, IsWhatLeavesAClientBesideModelAndCount) {
  EXPECT_THAT(fields("fedavg"), IsEmpty());
  EXPECT_THAT(fields("median"), IsEmpty());
  EXPECT_THAT(fields("oracle"), IsEmpty());
  EXPECT_THAT(fields("scaffold"), ElementsAre("control"));
  EXPECT_THAT(fields("fedcorr"), ::testing::IsSupersetOf({"lid", "muhat", "relabelled"}));
  // Its model is no secret of client and server: other clients get it.
  EXPECT_THAT(fields("fedrn"), ::testing::Contains("model"));
}

TEST(Revealed, FollowsTheParameters) {
  EXPECT_THAT(fields("fedns"), ::testing::Not(::testing::Contains("norms")));
  EXPECT_THAT(fields("fedns", {{"debug_density", true}}), ::testing::Contains("norms"));
}

TEST(Revealed, EveryMethodHasItFromItsExchanges) {
  for (const MethodInfo& info : builtin_methods()) {
    for (const Revealed& one : revealed_by(info.name, Json::object(), builtin_registry())) {
      EXPECT_NE(one.field, "") << info.name;
      EXPECT_NE(one.tells, "") << info.name;
    }
  }
}

TEST(LoadArena, OfAFileWithResultsKnowsWhatIsMissing) {
  const ArenaFile file;
  const Arena arena = load_arena(file.path().string(), file.results().string(), builtin_registry());
  EXPECT_THAT(arena.settings, ElementsAre("clean", "noisy"));
  EXPECT_EQ(arena.cells, 4U);
  EXPECT_EQ(arena.missing, 1U);
  EXPECT_EQ(arena.rows.at(0).name, "fedavg");
  EXPECT_THAT(arena.rows.at(0).reveals.value(), IsEmpty());
}

TEST(LoadArena, OfAResultsFileAloneTakesItsRowsForMethods) {
  const ArenaFile file;
  const Arena arena = load_arena(file.results().string(), "", builtin_registry());
  EXPECT_EQ(arena.rows.size(), 2U);
  EXPECT_EQ(arena.rule.metric, "last10");
  EXPECT_TRUE(arena.rows.at(0).reveals.has_value());
}

TEST(LoadArena, OfADirectoryReadsItsRuns) {
  const ArenaFile file;
  const Sweep sweep = file.load();
  const fs::path directory = file / "runs";
  fs::create_directories(directory);
  write_sweep_index(directory, sweep);
  RunObserver silent;
  for (const SweepRun& run : sweep.runs) {
    if (run.column == "clean") {
      start_run(run.experiment, builtin_registry(), on_cpu(1), directory / run.id, nullptr, silent);
    }
  }
  const Arena arena = load_arena(directory.string(), "", builtin_registry());
  EXPECT_EQ(arena.missing, 2U);
  ASSERT_EQ(arena.rows.size(), 2U);
  EXPECT_GT(arena.rows.at(0).cells.at(0).mean, 0.0);
  EXPECT_GT(arena.rows.at(0).bytes.value(), 0.0);
  // The page of the directory has the same.
  const Json report = ReportReader({directory.string()}).read();
  EXPECT_EQ(report.at("arena"), arena_json(arena));
}

TEST(LoadArena, WhatIsNoneIsNamed) {
  const ArenaFile file("");  // no [arena]
  const std::string toml = file.path().string();
  EXPECT_EQ(error_text([&] { load_arena(toml, "", builtin_registry()); }),
            toml +
                " is not an arena: its sweep file has no [arena] table | docs/arena.md says how "
                "one is made and run");
  const fs::path directory = file / "runs";
  fs::create_directories(directory);
  write_sweep_index(directory, file.load());
  EXPECT_THAT(error_text([&] { load_arena(directory.string(), "", builtin_registry()); }),
              HasSubstr("runs is not an arena: its sweep file has no [arena] table"));
  EXPECT_EQ(error_text([] { load_arena("nowhere", "", builtin_registry()); }),
            "nowhere does not exist | give the directory of a sweep, a sweep file or a results "
            "file");
  EXPECT_EQ(error_text([&] { load_arena(directory.string(), "r.csv", builtin_registry()); }),
            "--results: " + directory.string() +
                " is not a sweep file | winnow arena FILE.toml --results FILE.csv");
}

TEST(LoadArena, AFileThatWasNotRunSaysHowToRunIt) {
  const ArenaFile file;
  const std::string toml = file.path().string();
  EXPECT_EQ(error_text([&] { load_arena(toml, "", builtin_registry()); }),
            toml + ": no results in runs/small | run it with 'winnow sweep " + toml +
                "', or give --results FILE");
}

TEST(LoadArena, AForgedIndexIsRefused) {
  const ArenaFile file;
  const fs::path directory = file / "runs";
  fs::create_directories(directory);
  Sweep sweep = file.load();
  sweep.arena = {{"metric", "hash"}};
  write_sweep_index(directory, sweep);
  EXPECT_THAT(error_text([&] { load_arena(directory.string(), "", builtin_registry()); }),
              HasSubstr("sweep.json is damaged: arena.metric = \"hash\": expected an accuracy"));
}

}  // namespace winnow::arena_results_test
