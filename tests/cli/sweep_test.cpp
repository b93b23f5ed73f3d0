#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "cli/program.h"
#include "winnow/base/arithmetic.h"
#include "winnow/base/files.h"
#include "winnow/run/runner.h"
#include "winnow/sweep/sweep.h"

namespace winnow::sweep_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

constexpr const char* kGrid = R"(
[grid]
"method.name" = ["fedavg", "fedprox"]
seed = [1, 2]
)";

using Times = std::map<std::string, fs::file_time_type>;

// When each run below a sweep was finished.
Times finish_times(const fs::path& directory) {
  Times times;
  for (const std::string& name : names_in(directory)) {
    const fs::path summary = directory / name / "summary.json";
    if (fs::exists(summary)) {
      times[name] = fs::last_write_time(summary);
    }
  }
  return times;
}

TEST(SweepCommand, RunsTheGridOnceAndTablesShowItInEveryFormat) {
  const Workshop shop(kGrid);
  const Ended first = shop.done({"sweep", "e.toml", "--jobs", "2", "--lanes", "1"});
  EXPECT_THAT(first.out, HasSubstr("4 of 4 runs finished (4 now, 0 before); table: winnow table "
                                   "runs/small\n"));
  EXPECT_THAT(names_in(shop / "runs/small"),
              ElementsAre("experiments", "fedavg_s1", "fedavg_s2", "fedprox_s1", "fedprox_s2",
                          "lock", "logs", "sweep.json"));
  const Times times = finish_times(shop / "runs/small");
  EXPECT_EQ(times.size(), 4U);

  const Ended second = shop.done({"sweep", "e.toml", "--json", "--quiet"});
  EXPECT_EQ(finish_times(shop / "runs/small"), times) << "nothing is done twice";
  EXPECT_EQ(second.err, "");
  ASSERT_EQ(second.json().size(), 4U);
  EXPECT_EQ(second.json()[3].at("id"), "fedprox_s2");
  EXPECT_EQ(second.json()[3].at("finished"), true);

  const auto table = [&](const std::string& format) {
    return shop.done({"table", "runs/small", "--metric", "best,last", "--format", format}).out;
  };
  EXPECT_THAT(table("text"), HasSubstr("±"));
  EXPECT_THAT(table("markdown"), HasSubstr("| fedprox |"));
  EXPECT_THAT(table("csv"), HasSubstr("fedavg,,best,"));
  EXPECT_THAT(table("latex"), HasSubstr("\\begin{tabular}"));
  EXPECT_THAT(shop.done({"table", "runs/small", "--metric", "cost@1", "--format", "csv"}).out,
              HasSubstr("fedavg,,cost@1,"))
      << "reached in the first round";
  const Ended no_figures = shop.call({"table", "runs/small", "--paper"});
  EXPECT_EQ(no_figures.code, 2);
  EXPECT_THAT(no_figures.err, HasSubstr("--paper: none of these sweeps has published figures"));
  const Json json = Json::parse(table("json"));
  ASSERT_EQ(json.size(), 4U);
  for (const Json& cell : json) {
    EXPECT_EQ(cell.at("runs"), 2) << cell.dump();
  }
}

TEST(SweepCommand, PublishedFiguresStandBesideOurs) {
  const Workshop shop(std::string(kGrid) +
                      "[paper]\nmetric = \"cost@1\"\nfigures = { fedavg = 3, fedprox = 1 }\n");
  shop.done({"sweep", "e.toml", "--quiet"});
  const std::string table =
      shop.done({"table", "runs/small", "--paper", "-m", "best", "-f", "csv"}).out;
  EXPECT_THAT(table, HasSubstr("fedavg,,cost@1,2"))
      << "two clients in the first round reach it, wherever the figure's metric is not asked for";
}

TEST(SweepCommand, AnUnknownMetricOfPublishedFiguresIsToldBeforeAnythingRuns) {
  const Workshop shop(std::string(kGrid) +
                      "[paper]\nmetric = \"bestt\"\nfigures = { fedavg = 3 }\n");
  const Ended ended = shop.call({"sweep", "e.toml", "--quiet"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("paper.metric = \"bestt\": unknown metric"));
  EXPECT_THAT(ended.err, HasSubstr("best"));
  EXPECT_THAT(names_in(shop / "."), ElementsAre("e.toml"));
}

TEST(SweepCommand, ARunOfASweepIsTheRunItWouldBeAlone) {
  const Workshop shop("[grid]\nseed = [2]\n");
  shop.done({"sweep", "e.toml", "--out", "s", "--quiet"});
  write_file_whole(shop / "alone.toml", small_toml());
  shop.done({"run", "alone.toml", "--quiet", "--seed", "2", "--out", "alone"});
  EXPECT_EQ(hashes(read_history(shop / "alone")), hashes(read_history(shop / "s/fedavg_s2")));
}

Words planned_ids(const Ended& ended) {
  Words ids;
  for (const Json& run : ended.json()) {
    ids.push_back(run.at("id").get<std::string>());
  }
  return ids;
}

TEST(SweepCommand, TheOrderBySeedHasOneSeedOfEveryCellFirst) {
  const Workshop shop(kGrid);
  EXPECT_THAT(planned_ids(shop.done({"sweep", "e.toml", "--dry-run", "--json", "--order", "seed"})),
              ElementsAre("fedavg_s1", "fedprox_s1", "fedavg_s2", "fedprox_s2"));
}

TEST(SweepCommand, AtTheDeadlineItStopsAndContinuesLater) {
  const Workshop shop("[grid]\nseed = [1, 2]\n");
  const Words words{"sweep", "e.toml", "--out", "s", "--set", "rounds=400"};
  Words short_of_time = words;
  short_of_time.insert(short_of_time.end(), {"--deadline", "1.5"});
  const Ended stopped = shop.call(short_of_time);
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_THAT(stopped.err,
              HasSubstr("the deadline has passed; run the same command again to continue\n"));
  EXPECT_THAT(stopped.err, Not(HasSubstr("failed")));
  EXPECT_FALSE(fs::exists(shop / "s/fedavg_s2")) << "nothing is begun after it";
}

TEST(SweepCommand, ADeadlineWhileTheFirstRunStartsIsNoFailure) {
  const Workshop shop("[grid]\nseed = [1, 2]\n");
  const Ended stopped = shop.call({"sweep", "e.toml", "--out", "s", "--deadline", "0.1"});
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_THAT(stopped.err, Not(HasSubstr("failed")));
  shop.done({"sweep", "e.toml", "--out", "s", "--quiet"});
  EXPECT_TRUE(fs::exists(shop / "s/fedavg_s2/summary.json"));
}

TEST(SweepCommand, SlimKeepsWhatTablesNeed) {
  const Workshop shop("[grid]\nseed = [1]\n");
  shop.done({"sweep", "e.toml", "--quiet", "--slim"});
  EXPECT_THAT(names_in(shop / "runs/small/fedavg_s1"),
              ElementsAre("events.jsonl", "experiment.toml", "findings.json", "lock", "metrics.csv",
                          "partition.json", "summary.json"));
  EXPECT_THAT(shop.done({"table", "runs/small", "-m", "best", "-f", "csv"}).out,
              HasSubstr("fedavg,,best,"));
  EXPECT_THAT(shop.done({"sweep", "e.toml"}).out,
              HasSubstr("1 of 1 runs finished (0 now, 1 before)"));
  shop.done({"verify", "runs/small/fedavg_s1"});
}

TEST(SweepCommand, AResultsFileStandsForTheRuns) {
  const std::string paper =
      "[[paper]]\nmetric = \"last\"\nfigures = { fedavg = 50 }\n"
      "[[paper]]\nmetric = \"cost@1\"\nfigures = { fedavg = 2 }\n";
  const Workshop shop(kGrid + paper);
  shop.done({"sweep", "e.toml", "--quiet", "--only", "_s1"});
  const std::string file = shop.done({"table", "runs/small", "--format", "runs"}).out;
  EXPECT_EQ(lines(file), 3U) << "a header and the finished runs";
  EXPECT_THAT(file, HasSubstr("row,column,seed,cell,best,last,"));
  EXPECT_THAT(file, HasSubstr(",cost@1,"));
  write_file_whole(shop / "done.csv", file);

  const Words by_directory{"table", "runs/small", "--paper", "-f", "csv", "-m", "best"};
  const Words by_file{"table", "e.toml", "--results", "done.csv", "--paper",
                      "-f",    "csv",    "-m",        "best"};
  EXPECT_EQ(shop.done(by_file).out, shop.done(by_directory).out);
  EXPECT_THAT(planned_ids(shop.done({"sweep", "e.toml", "--dry-run", "--json", "--out", "other",
                                     "--done", "done.csv"})),
              ElementsAre("fedavg_s2", "fedprox_s2"));
  // Without the first run of the file its seed still comes first.
  write_file_whole(shop / "one.csv", file.substr(0, file.find('\n', file.find('\n') + 1) + 1));
  EXPECT_THAT(planned_ids(shop.done({"sweep", "e.toml", "--dry-run", "--json", "--out", "other",
                                     "--done", "one.csv", "--order", "seed"})),
              ElementsAre("fedprox_s1", "fedavg_s2", "fedprox_s2"));
  // Without the first run of the file its seed still comes first.
  write_file_whole(shop / "one.csv", file.substr(0, file.find('\n', file.find('\n') + 1) + 1));
  EXPECT_THAT(planned_ids(shop.done({"sweep", "e.toml", "--dry-run", "--json", "--out", "other",
                                     "--done", "one.csv", "--order", "seed"})),
              ElementsAre("fedprox_s1", "fedavg_s2", "fedprox_s2"));
  EXPECT_EQ(planned_ids(shop.done({"sweep", "e.toml", "--dry-run", "--json", "--out", "other",
                                   "--done", "done.csv", "--set", "train.lr=0.5"}))
                .size(),
            4U)
      << "results of another setting do not count";

  write_file_whole(shop / "bad.csv", "row,column,seed,cell,best\na,b,x,c,1\n");
  const Ended bad = shop.call({"table", "e.toml", "--results", "bad.csv"});
  EXPECT_EQ(bad.code, 5);
  EXPECT_THAT(bad.err, HasSubstr("bad.csv:2: seed = 'x': expected a count"));
}

TEST(SweepCommand, SmokeRunsASmallFormOfEveryRowAndColumn) {
  const Workshop shop(R"(
[[row]]
name = "FedAvg"
[[row]]
name = "FedCorr"
set = { "method.name" = "fedcorr" }
[[column]]
name = "one"
[[column]]
name = "two"
set = { "federation.clients" = 100, "data.name" = "cifar100", "model.name" = "resnet34" }
[smoke]
"method.iterations" = 1
"method.finetune_rounds" = 1
"method.usual_rounds" = 1
"method.lid_neighbours" = 5
)");
  const Ended ended = shop.done({"sweep", "e.toml", "--scale", "smoke", "--lanes", "1"});
  EXPECT_THAT(ended.out, HasSubstr("3 of 3 runs finished"));
  EXPECT_THAT(names_in(shop / "runs/small-smoke"),
              ElementsAre("FedAvg_one_s1", "FedAvg_two_s1", "FedCorr_one_s1", "experiments", "lock",
                          "logs", "sweep.json"));
}

TEST(SweepCommand, DryRunListsAndDoesNothing) {
  const Workshop shop(kGrid);
  const Ended ended = shop.done({"sweep", "e.toml", "--dry-run"});
  EXPECT_EQ(lines(ended.out), 5U);
  EXPECT_THAT(ended.out, HasSubstr("fedprox_s2"));
  EXPECT_THAT(ended.out, HasSubstr("would run"));
  EXPECT_THAT(names_in(shop / "."), ElementsAre("e.toml"));
}

TEST(SweepCommand, DryRunSaysWhatTheSweepWouldDoWithEachRun) {
  const Workshop shop(kGrid);
  shop.done({"sweep", "e.toml", "--only", "fedavg", "--quiet"});
  fs::remove(shop / "runs/small/fedavg_s2/summary.json");
  const auto plans = [](const Ended& ended) {
    std::map<std::string, std::string> found;
    for (const Json& run : ended.json()) {
      found[run.at("id").get<std::string>()] = run.at("plan").get<std::string>();
    }
    return found;
  };
  using Plans = std::map<std::string, std::string>;
  const Words dry{"sweep", "e.toml", "--dry-run", "--json"};
  EXPECT_EQ(plans(shop.done(dry)), (Plans{{"fedavg_s1", "finished"},
                                          {"fedavg_s2", "would continue"},
                                          {"fedprox_s1", "would run"},
                                          {"fedprox_s2", "would run"}}));
  EXPECT_EQ(plans(shop.done({"sweep", "e.toml", "--dry-run", "--json", "--only", "prox_s2"})),
            (Plans{{"fedprox_s2", "would run"}}));
  EXPECT_EQ(shop.call({"sweep", "e.toml", "--dry-run", "--only", "nothing"}).err,
            "winnow: --only nothing: no run has this in its name\n");

  const Words changed{"sweep", "e.toml", "--dry-run", "--set", "train.lr=0.5"};
  const Ended refused = shop.call(changed);
  EXPECT_EQ(refused.code, 5) << "as the real one";
  EXPECT_EQ(lines(refused.out), 5U);
  EXPECT_THAT(refused.out, HasSubstr("was made from a different experiment"));
  EXPECT_THAT(refused.out, Not(HasSubstr("finished")));
  EXPECT_THAT(refused.err,
              HasSubstr("winnow: runs/small/fedavg_s1 was made from a different experiment"));
}

TEST(SweepCommand, OnlyPicksRunsByName) {
  const Workshop shop(kGrid);
  const Ended ended = shop.done({"sweep", "e.toml", "--only", "fedprox_s", "--out", "s"});
  EXPECT_THAT(ended.out, HasSubstr("2 of 2 runs finished"));
  EXPECT_EQ(finish_times(shop / "s").size(), 2U);
  EXPECT_THAT(shop.done({"sweep", "e.toml", "--dry-run", "--out", "s"}).out, HasSubstr("finished"));
  const Ended none = shop.call({"sweep", "e.toml", "--only", "nothing", "--out", "s"});
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err, "winnow: --only nothing: no run has this in its name\n");
}

TEST(SweepCommand, JsonListsTheRunsThatWereAskedFor) {
  const Workshop shop(kGrid);
  const Words json{"sweep", "e.toml", "--quiet", "--json", "--only", "fedprox"};
  const Json list = shop.done(json).json();
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].dump(),
            R"({"id":"fedprox_s1","row":"fedprox","column":"","seed":1,"finished":true})");
  EXPECT_EQ(list[1].at("id"), "fedprox_s2");
}

TEST(SweepCommand, QuietPrintsTheResultAlone) {
  const Workshop shop("[grid]\nseed = [1]\n");
  const Ended ended = shop.done({"sweep", "e.toml", "--quiet"});
  EXPECT_EQ(ended.out, "1 of 1 runs finished (1 now, 0 before); table: winnow table runs/small\n");
  EXPECT_EQ(ended.err, "");
}

TEST(SweepCommand, AFailingRunIsReportedAndTriedAgain) {
  const Workshop shop(R"(
[[row]]
name = "good"
[[row]]
name = "diverges"
set = { "train.lr" = 1e30 }
)");
  const Ended first = shop.call({"sweep", "e.toml"});
  EXPECT_EQ(first.code, 8);
  EXPECT_THAT(first.out, HasSubstr("1 of 2 runs finished (1 now, 0 before), 1 failed"));
  EXPECT_THAT(first.err, HasSubstr("failed: diverges_s1 (exit code 5): "));
  EXPECT_THAT(first.err, HasSubstr("not finite"));
  const Times times = finish_times(shop / "runs/small");
  EXPECT_EQ(times.size(), 1U);

  const Ended second = shop.call({"sweep", "e.toml", "--quiet"});
  EXPECT_EQ(second.code, 8) << "it is tried again, and fails again";
  EXPECT_EQ(lines(second.err), 1U) << second.err;
  EXPECT_EQ(finish_times(shop / "runs/small"), times);
  const Ended table = shop.done({"table", "runs/small", "--metric", "last"});
  EXPECT_THAT(table.out, HasSubstr("diverges"));
}

// What a paper's recipe says where its data or weights are missing.
TEST(SweepCommand, WhatStopsManyRunsIsSaidOnceWithItsCure) {
  const Workshop shop(R"(
[grid]
seed = [1, 2, 3]
[[row]]
name = "no weights"
set = { "model.weights" = "w.safetensors" }
[[row]]
name = "no folder"
set = { validation = { source = "folder", path = "pictures" } }
)");
  const Ended ended = shop.call({"sweep", "e.toml", "--quiet"});
  EXPECT_EQ(ended.code, 8);
  EXPECT_EQ(lines(ended.err), 2U) << ended.err;
  EXPECT_THAT(ended.err,
              HasSubstr("failed: no-weights_s1 and 2 more (exit code 4): model.weights = "));
  EXPECT_THAT(ended.err, HasSubstr("w.safetensors\": no such file (put weights of "));
  EXPECT_THAT(ended.err, HasSubstr("failed: no-folder_s1 and 2 more (exit code 4): "));
  EXPECT_THAT(ended.err,
              HasSubstr("pictures\": no such folder (put it there or into data/, with a folder "));
}

TEST(SweepCommand, StoppedAndContinuedNothingIsDoneTwice) {
  const Workshop shop("[grid]\nseed = [1, 2, 3]\n");
  const Words words{"sweep", "e.toml", "--out", "s", "--set", "rounds=25"};
  Process process(words, shop.place());
  ASSERT_TRUE(wait_until([&] {
    return fs::exists(shop / "s/fedavg_s2/events.jsonl") &&
           read_history(shop / "s/fedavg_s2").size() >= 2;
  }));
  process.send(SIGTERM);
  const Ended stopped = process.wait();
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("stopped; run the same command again to continue\n"));
  EXPECT_THAT(stopped.err, Not(HasSubstr("failed")));
  EXPECT_FALSE(fs::exists(shop / "s/fedavg_s3"));
  const Times before = finish_times(shop / "s");
  EXPECT_GE(before.size(), 1U);

  EXPECT_THAT(shop.done(words).out, HasSubstr("3 of 3 runs finished"));
  const Times after = finish_times(shop / "s");
  EXPECT_EQ(after.size(), 3U);
  for (const auto& [name, time] : before) {
    EXPECT_EQ(after.at(name), time) << name;
  }
  if (!before.contains("fedavg_s2")) {
    EXPECT_THAT(read_file(shop / "s/fedavg_s2/events.jsonl"), HasSubstr(R"("event":"resumed")"));
  }
  EXPECT_EQ(read_history(shop / "s/fedavg_s2").size(), 25U);
  EXPECT_EQ(shop.call({"verify", "s/fedavg_s2", "--rounds", "5"}).code, 0);
}

TEST(SweepCommand, ADirectoryOfOtherRunsIsRefused) {
  const Workshop shop("[grid]\nseed = [1]\n");
  shop.done({"sweep", "e.toml", "--out", "s", "--quiet"});
  const Ended changed = shop.call({"sweep", "e.toml", "--out", "s", "--set", "rounds=5"});
  EXPECT_EQ(changed.code, 5);
  EXPECT_THAT(changed.err, HasSubstr("s/fedavg_s1 was made from a different experiment\n  choose "
                                     "another --out, or replace it with --force\n"));
  const Ended single = shop.call({"sweep", "e.toml", "--out", "s/fedavg_s1"});
  EXPECT_EQ(single.code, 5);
  EXPECT_THAT(single.err, HasSubstr("is the directory of a single run"));
}

TEST(SweepCommand, ForceReplacesRunsOfAnotherExperimentAndNoOthers) {
  const Workshop shop("[grid]\nseed = [1, 2]\n");
  shop.done({"sweep", "e.toml", "--out", "s", "--quiet"});
  shop.done({"sweep", "e.toml", "--out", "s", "--only", "_s1", "--force", "--set", "rounds=2"});
  EXPECT_EQ(read_summary(shop / "s/fedavg_s1").at("rounds"), 2);
  EXPECT_EQ(read_summary(shop / "s/fedavg_s2").at("rounds"), 4);
  const Ended dry = shop.done({"sweep", "e.toml", "--out", "s", "--force", "--dry-run"});
  EXPECT_THAT(dry.out, HasSubstr("would replace a run of another experiment"));
  EXPECT_THAT(dry.out, HasSubstr("finished"));
  EXPECT_THAT(shop.done({"sweep", "e.toml", "--out", "s", "--force", "--quiet"}).out,
              HasSubstr("2 of 2 runs finished (1 now, 1 before)"));
  EXPECT_EQ(read_summary(shop / "s/fedavg_s1").at("rounds"), 4);
}

TEST(SweepCommand, BadFilesAreNamed) {
  const Workshop shop("[grid]\nseed = [1]\n\"train.lr\" = [-1]\n");
  const Ended bad = shop.call({"sweep", "e.toml"});
  EXPECT_EQ(bad.code, 3);
  EXPECT_THAT(bad.err, HasSubstr("e.toml: run 'seed=1, lr=-1': train.lr = -1: expected"));
  const Ended override_axis = shop.call({"sweep", "e.toml", "--seed", "5"});
  EXPECT_EQ(override_axis.code, 2);
  EXPECT_THAT(override_axis.err, HasSubstr("seed is an axis of the [grid]"));
  EXPECT_THAT(names_in(shop / "."), ElementsAre("e.toml"));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
using Hashes = std::map<std::string, std::string>;  // of models, by method

// What the methods ended with under the arithmetic of this fingerprint; empty: nobody has recorded
// it. A change that is meant to change bits records them anew with WINNOW_WRITE_HASHES=1 and says
// why in CHANGELOG.md.
Hashes recorded_hashes(const Hashes& found, const std::string& fingerprint) {
  const fs::path file = fs::path(WINNOW_SOURCE_DIR) / "tests/cli/every_method_hashes.json";
  Json known = Json::parse(read_file(file));
  if (std::getenv("WINNOW_WRITE_HASHES") != nullptr) {
    known[fingerprint] = found;
    write_file_whole(file, known.dump(1) + "\n");
  }
  return known.value(fingerprint, Hashes());
}

// On real data, under noise; every_method_test.cpp plays them all under the sanitizers too.
TEST(SweepCommand, RunsEveryMethodThereIsToTheRecordedBitsAndPrintsOneTable) {
  const Workshop shop;
  const fs::path file = fs::path(WINNOW_SOURCE_DIR) / "experiments/every-method.toml";
  const Sweep sweep = load_sweep(file, {}, builtin_registry());
  EXPECT_EQ(sweep.runs.size(), builtin_methods().size());
  const std::string arithmetic = cpu_has(Arithmetic::avx2) ? "avx2" : "native";
  shop.done({"sweep", file.string(), "--jobs", "2", "--lanes", "1", "--out", "all", "--quiet",
             "--arithmetic", arithmetic});
  const std::string table = shop.done({"table", "all", "--metric", "best,last"}).out;
  Hashes hashes;
  std::string fingerprint;
  for (const SweepRun& run : sweep.runs) {
    EXPECT_THAT(table, HasSubstr("\n" + run.row + " "));
    const Json summary = read_summary((shop / "all") / run.id);
    hashes[run.row] = summary.at("model_hash");
    fingerprint = summary.at("fingerprint");
  }
  const Hashes known = recorded_hashes(hashes, fingerprint);
  if (known.empty()) {
    GTEST_SKIP()
        << "no hashes are recorded for the libraries of this machine, whose fingerprint is "
        << fingerprint;
  }
  EXPECT_EQ(hashes, known)
      << "where a method is new, or its bits are meant to change, record them with\n"
         "  WINNOW_WRITE_HASHES=1 build/release/tests/test_cli "
         "--gtest_filter='*ToTheRecordedBits*'";
}
#endif

}  // namespace winnow::sweep_test
