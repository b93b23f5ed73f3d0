// Every experiment that comes with the source is one that the program accepts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"
#include "winnow/experiment/experiment.h"
#include "winnow/sweep/sweep_index.h"

namespace winnow::experiments_test {

namespace fs = std::filesystem;

std::vector<fs::path> experiment_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(WINNOW_SOURCE_DIR "/experiments")) {
    if (entry.path().extension() == ".toml") {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

bool is_sweep(const Json& tree) {
  return tree.contains("grid") || tree.contains("row") || tree.contains("column") ||
         tree.contains("methods");
}

TEST(Experiments, AllOfThemAreAccepted) {
  ASSERT_FALSE(experiment_files().empty());
  for (const fs::path& file : experiment_files()) {
    const bool sweep = is_sweep(load_experiment_tree(file, {}));
    EXPECT_EQ(error_text([&] {
                if (sweep) {
                  load_sweep(file, {}, builtin_registry());
                } else {
                  load_experiment(file, {}, builtin_registry());
                }
              }),
              "no error");
  }
}

TEST(Experiments, TheirFirstLinesSayHowToRunThem) {
  for (const fs::path& file : experiment_files()) {
    const bool sweep = is_sweep(load_experiment_tree(file, {}));
    const std::string path = " " + fs::relative(file, WINNOW_SOURCE_DIR).string();
    const std::string text = read_file(file);
    if (sweep) {
      EXPECT_THAT(text, ::testing::HasSubstr("winnow sweep" + path)) << file;
    } else {
      EXPECT_THAT(text, ::testing::AnyOf(::testing::HasSubstr("winnow run" + path),
                                         ::testing::HasSubstr("winnow inspect" + path)))
          << file;
    }
  }
}

TEST(Experiments, SweepsListTheirRuns) {
  const Workshop shop;
  for (const fs::path& file : experiment_files()) {
    // Those of the papers are run in their small form by another test.
    if (file.parent_path().filename() == "experiments" &&
        is_sweep(load_experiment_tree(file, {}))) {
      const Ended plan = shop.done({"sweep", file.string(), "--dry-run"});
      EXPECT_EQ(lines(plan.out), load_sweep(file, {}, builtin_registry()).runs.size() + 1) << file;
    }
  }
}

TEST(Experiments, TheOneThatNeedsNoFilesRuns) {
  const Workshop shop;
  const Json summary = shop.done({"run", WINNOW_SOURCE_DIR "/experiments/synthetic.toml", "--set",
                                  "rounds=1", "--json", "--quiet"})
                           .json();
  EXPECT_EQ(summary.at("name"), "synthetic");
}

}  // namespace winnow::experiments_test
