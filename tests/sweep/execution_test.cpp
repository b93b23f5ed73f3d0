#include "winnow/sweep/execution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/small_run.h"
#include "winnow/run/runner.h"

namespace winnow::execution_test {

using ::testing::ElementsAre;

namespace fs = std::filesystem;

// Two methods and two seeds, one round each, in a directory as the command makes it.
class Grid {
 public:
  Grid() {
    write_file_whole(
        file(), small_toml() + std::string("[grid]\nseed = [1, 2]\n\"method.name\" = [\"fedavg\", "
                                           "\"fedprox\"]\n"));
    fs::create_directories(directory() / "experiments");
    fs::create_directories(directory() / "logs");
  }
  fs::path file() const { return folder_ / "s.toml"; }
  fs::path directory() const { return folder_ / "runs"; }
  Sweep sweep() const { return load_sweep(file(), {{"rounds", "1"}}, builtin_registry()); }

 private:
  TestFolder folder_;
};

std::vector<std::string> ids(const std::vector<PlannedRun>& plan) {
  std::vector<std::string> ids;
  for (const PlannedRun& planned : plan) {
    ids.push_back(planned.run->id);
  }
  return ids;
}

// What it was told, many times and once at the end.
struct Watcher final : SweepObserver {
  void progress(const SweepProgress& progress, bool is_last) override {
    seen = progress;
    last = is_last;
  }
  SweepProgress seen;
  bool last = false;
};

TEST(SweepPlan, HasTheChosenRunsInTheirOrder) {
  const Grid grid;
  const Sweep sweep = grid.sweep();
  const auto planned = [&](const SweepChoice& choice) {
    return ids(plan_sweep(sweep, grid.directory(), choice, builtin_registry()));
  };
  EXPECT_THAT(planned({}), ElementsAre("fedavg_s1", "fedprox_s1", "fedavg_s2", "fedprox_s2"));
  EXPECT_THAT(planned({.only = {"prox", "s2"}}), ElementsAre("fedprox_s2"));
  EXPECT_THAT(planned({.only = {"^fedprox_", "s2"}}), ElementsAre("fedprox_s2"));
  EXPECT_THROW(planned({.only = {"^prox"}}), Error)
      << "it is in the name, but not at its beginning";
  EXPECT_THAT(planned({.by_seed = true}),
              ElementsAre("fedavg_s1", "fedprox_s1", "fedavg_s2", "fedprox_s2"));
  EXPECT_EQ(error_text([&] { planned({.only = {"moon"}}); }),
            "--only moon: no run has this in its name");
}

TEST(SweepExecution, PlaysWhatIsMissingAndSkipsWhatIsThere) {
  const Grid grid;
  const Sweep sweep = grid.sweep();
  const Registry registry = builtin_registry();
  const std::atomic<bool> stop = false;
  const auto execute = [&](const SweepChoice& choice) {
    Watcher watcher;
    SweepExecution execution(plan_sweep(sweep, grid.directory(), choice, registry),
                             grid.directory(), {.runtime = on_cpu()}, watcher);
    execution.execute_here(registry, stop);
    EXPECT_TRUE(execution.failures().empty());
    EXPECT_FALSE(execution.stopped() || execution.late());
    EXPECT_TRUE(watcher.last);
    return watcher.seen;
  };
  EXPECT_EQ(execute({.only = {"fedavg"}}).finished, 2U);
  const SweepProgress all = execute({});
  EXPECT_EQ(all.chosen, 4U);
  EXPECT_EQ(all.skipped, 2U);
  EXPECT_EQ(all.finished, 2U);
  EXPECT_DOUBLE_EQ(share_done(grid.directory() / "fedavg_s1"), 1.0);
  EXPECT_DOUBLE_EQ(share_done(grid.directory() / "nowhere"), 0.0);
}

// Only the end of a log is read, however long its lines are.
TEST(ShareDone, IsThatOfTheLastCompleteRound) {
  const TestFolder folder;
  const auto share = [&](const std::string& log) {
    write_file_whole(folder / "events.jsonl", log);
    return share_done(folder.path());
  };
  const std::string started = "{\"event\":\"started\",\"rounds\":8}\n";
  EXPECT_EQ(share(""), 0.0);
  EXPECT_EQ(share(started), 0.0);
  std::string log = started;
  for (int round = 1; round <= 6; ++round) {
    log += fmt::format("{{\"event\":\"round\",\"round\":{},\"x\":\"{}\"}}\n", round,
                       std::string(static_cast<std::size_t>(round) * 5000, 'x'));
    EXPECT_EQ(share(log), round / 8.0);
  }
  const std::string labels = "{\"event\":\"labels\",\"x\":\"" + std::string(300'000, 'x') + "\"}\n";
  EXPECT_EQ(share(log + labels), 6 / 8.0) << "the round is far from the end";
  EXPECT_EQ(share(log + "{\"event\":\"round\",\"round\":7"), 6 / 8.0) << "it is not complete";
}

TEST(SweepExecution, KeepsTheWordsOfARunThatFailed) {
  const Grid grid;
  Sweep sweep = grid.sweep();
  sweep.runs.resize(1);
  sweep.runs[0].experiment.model.weights = "/nowhere.safetensors";
  const Registry registry = builtin_registry();
  const std::atomic<bool> stop = false;
  Watcher watcher;
  SweepExecution execution(plan_sweep(sweep, grid.directory(), {}, registry), grid.directory(),
                           {.runtime = on_cpu()}, watcher);
  execution.execute_here(registry, stop);
  ASSERT_EQ(execution.failures().size(), 1U);
  EXPECT_THAT(execution.failures()[0].words,
              ::testing::StartsWith("(exit code 4): model.weights = \"/nowhere.safetensors\""));
}

TEST(SweepExecution, ARunOfAnotherExperimentIsRefusedOrReplaced) {
  const Grid grid;
  Sweep sweep = grid.sweep();
  sweep.runs.resize(1);
  const Registry registry = builtin_registry();
  const std::atomic<bool> stop = false;
  Watcher watcher;
  RunObserver silence;
  Experiment other = sweep.runs[0].experiment;
  other.train.lr = 0.5;
  const fs::path home = grid.directory() / sweep.runs[0].id;
  start_run(other, registry, on_cpu(), home, nullptr, silence);
  const std::vector<PlannedRun> plan = plan_sweep(sweep, grid.directory(), {}, registry);
  EXPECT_EQ(plan_text(plan[0], false), "was made from a different experiment");
  EXPECT_EQ(error_text([&] { refuse_foreign(plan, grid.directory()); }),
            home.string() +
                " was made from a different experiment | choose another --out, or replace it with "
                "--force");
  SweepExecution execution(plan, grid.directory(), {.runtime = on_cpu()}, watcher);
  execution.execute_here(registry, stop);
  EXPECT_EQ(watcher.seen.finished, 1U);
  EXPECT_EQ(read_run_experiment(home, registry).hash(), sweep.runs[0].experiment.hash());
}

}  // namespace winnow::execution_test
