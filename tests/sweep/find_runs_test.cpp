#include "winnow/sweep/find_runs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/small_run.h"

namespace winnow::find_runs_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

// Run directories as far as find_runs() looks at them: none of these runs was played.
class Shelf {
 public:
  std::string operator/(const std::string& name) const { return (folder_ / name).string(); }

  // A run that is not finished.
  std::string begin(const std::string& name, const std::vector<std::string>& sets = {}) const {
    fs::create_directories(folder_ / name);
    write_file_whole(folder_ / name / "experiment.toml", write_toml(small(sets).resolved()));
    return *this / name;
  }

  std::string finish(const std::string& name, const std::vector<std::string>& sets = {},
                     const std::string& device = "cpu",
                     const std::string& precision = "fp32") const {
    begin(name, sets);
    Json summary{{"device", device},
                 {"precision", precision},
                 {"name", "small"},
                 {"method", "fedavg"},
                 {"model_hash", "0"}};
    for (const char* key : {"seed", "rounds", "best", "last", "last10", "participations",
                            "bytes_up", "bytes_down", "wall_seconds"}) {
      summary[key] = 0;
    }
    write_file_whole(folder_ / name / "summary.json", summary.dump());
    return *this / name;
  }

  // A sweep of these cells, "ID row column seed"; its runs are put below it.
  std::string sweep(const std::string& name, const std::vector<std::string>& cells,
                    const std::string& paper = "[]") const {
    Json runs = Json::array();
    for (const std::string& cell : cells) {
      const std::vector<std::string> words = split(cell, ' ');
      runs.push_back({{"id", words.at(0)},
                      {"row", words.at(1)},
                      {"column", words.at(2) == "-" ? "" : words.at(2)},
                      {"seed", std::stoi(words.at(3))}});
    }
    fs::create_directories(folder_ / name);
    const Json index{{"name", name}, {"runs", runs}, {"paper", Json::parse(paper)}};
    write_file_whole(folder_ / name / "sweep.json", index.dump());
    return *this / name;
  }

 private:
  TestFolder folder_;
};

// "row | column" of every run.
std::vector<std::string> labels(const std::vector<std::string>& directories) {
  std::vector<std::string> found;
  for (const RunPlace& place : find_runs(directories)) {
    found.push_back(fmt::format("{} | {}", place.row, place.column));
  }
  return found;
}

TEST(FindRuns, RunsThatDifferInTheirSeedsAloneAreCalledTheSame) {
  const Shelf shelf;
  EXPECT_THAT(labels({shelf.finish("a"), shelf.finish("b", {"seed=2", "checkpoint_every=1"})}),
              ElementsAre("fedavg | small", "fedavg | small"));
}

TEST(FindRuns, WhatDiffersBesidesTheSeedIsInTheRow) {
  const Shelf shelf;
  const std::string a = shelf.finish("a", {"rounds=20"});
  const std::string b = shelf.finish("b", {"rounds=40"});
  const std::string c = shelf.finish("c", {"rounds=40", "seed=2"});
  EXPECT_THAT(labels({a, b, c}),
              ElementsAre("fedavg, rounds = 20 | small", "fedavg, rounds = 40 | small",
                          "fedavg, rounds = 40 | small"));
  const std::string d = shelf.finish("d", {"rounds=40", "train.lr=0.5"});
  EXPECT_THAT(labels({a, b, d}), ElementsAre("fedavg, rounds = 20, lr = 0.05 | small",
                                             "fedavg, rounds = 40, lr = 0.05 | small",
                                             "fedavg, rounds = 40, lr = 0.5 | small"));
  const std::string other = shelf.finish("e", {"rounds=40", "method.name=fedprox"});
  EXPECT_THAT(labels({a, other}), ElementsAre("fedavg | small", "fedprox | small"))
      << "the rows say enough";
}

TEST(FindRuns, ADifferentProblemIsADifferentColumn) {
  const Shelf shelf;
  const std::string a = shelf.finish("a", {"noise.0.rho=0.2"});
  const std::string b = shelf.finish("b", {"noise.0.rho=0.4", "method.name=fedprox"});
  EXPECT_THAT(labels({a, b}),
              ElementsAre("fedavg | small, rho = 0.2", "fedprox | small, rho = 0.4"))
      << "the best of a column must be the best at one problem";
  const std::string c = shelf.finish("c", {"noise=[]"});
  EXPECT_THAT(labels({a, c}), ElementsAre("fedavg | small, noise.0 = fedcorr_labels",
                                          "fedavg | small, noise.0 = none"));
  const std::string d = shelf.finish("d", {"name=other", "noise.0.rho=0.9"});
  EXPECT_THAT(labels({a, d}), ElementsAre("fedavg | small", "fedavg | other"))
      << "names that differ say enough";
}

TEST(FindRuns, NamesThatDifferFromSeedToSeedDoNotPartTheRuns) {
  const Shelf shelf;
  EXPECT_THAT(labels({shelf.finish("a", {"name=one"}), shelf.finish("b", {"name=two", "seed=2"})}),
              ElementsAre("fedavg | one, two", "fedavg | one, two"));
}

TEST(FindRuns, ALongListOfDifferencesIsCutAndSaysSo) {
  const Shelf shelf;
  const std::string a = shelf.finish("a");
  const std::string b = shelf.finish(
      "b", {"rounds=9", "train.lr=0.5", "train.epochs=3", "train.momentum=0.9", "eval_every=2"});
  EXPECT_THAT(labels({a, b}),
              ElementsAre("fedavg, eval_every = 1, rounds = 4, epochs = 1, ... | small",
                          "fedavg, eval_every = 2, rounds = 9, epochs = 3, ... | small"));
}

TEST(FindRuns, DeviceAndPrecisionAreToldWhereTheyDiffer) {
  const Shelf shelf;
  const std::string a = shelf.finish("a", {}, "cuda:0", "tf32");
  const std::string b = shelf.finish("b", {"seed=2"}, "cuda:1", "tf32");
  const std::string c = shelf.finish("c", {"seed=3"}, "cuda:0", "bf16");
  EXPECT_THAT(labels({a, b}), ElementsAre("fedavg | small", "fedavg | small"));
  EXPECT_THAT(labels({a, c}),
              ElementsAre("fedavg, precision = tf32 | small", "fedavg, precision = bf16 | small"));
  const std::string e = shelf.finish("e", {"seed=5"});
  const std::string f = shelf.finish("f", {"seed=6"});
  Json summary = Json::parse(read_file(f + "/summary.json"));
  summary["arithmetic"] = "avx2";
  write_file_whole(f + "/summary.json", summary.dump());
  EXPECT_THAT(labels({e, f}), ElementsAre("fedavg, arithmetic = unknown | small",
                                          "fedavg, arithmetic = avx2 | small"));
  EXPECT_THAT(labels({a, shelf.begin("d", {"seed=4"})}),
              ElementsAre("fedavg | small", "fedavg | small"))
      << "what is not finished has no such thing yet";
}

TEST(FindRuns, TheSameSeedTwiceIsRefused) {
  const Shelf shelf;
  const std::string a = shelf.finish("a");
  const std::string b = shelf.begin("b", {"name=again"});
  EXPECT_EQ(error_text([&] {
              find_runs({a, b});
            }),
            a + " and " + b +
                " are runs of one experiment with the same seed, 1 | a mean over seeds must not "
                "count one twice: leave one of them out");
  EXPECT_EQ(error_text([&] {
              find_runs({a, a + "/"});
            }),
            a + "/ is given twice | give every directory once");
  const std::string sweep = shelf.sweep("s", {"x fedavg - 1"});
  const std::string inner = shelf.finish("s/x");
  EXPECT_THAT(error_text([&] {
                find_runs({sweep, inner});
              }),
              HasSubstr(inner + " and " + inner + " are runs of one experiment"));
}

TEST(FindRuns, SweepsKeepTheirNamesAndTakeInRunsOfTheSameExperiment) {
  const Shelf shelf;
  const std::string sweep = shelf.sweep("s", {"x FedAvg - 1", "y FedProx - 1"});
  shelf.finish("s/x");
  shelf.finish("s/y", {"method.name=fedprox"});
  EXPECT_THAT(labels({sweep}), ElementsAre("FedAvg | ", "FedProx | "));
  EXPECT_THAT(labels({shelf.finish("a", {"seed=2"}), sweep}),
              ElementsAre("FedAvg | ", "FedAvg | ", "FedProx | "));
  EXPECT_THAT(labels({sweep, shelf.finish("b", {"name=b", "noise.0.rho=0.9"})}),
              ElementsAre("FedAvg | s", "FedProx | s", "fedavg | b"));
}

TEST(FindRuns, RowsOfASweepMayBeTheSameExperiment) {
  const Shelf shelf;
  const std::string sweep = shelf.sweep("s", {"x control - 1", "y fedavg - 1"});
  shelf.finish("s/x");
  shelf.finish("s/y");
  EXPECT_THAT(labels({sweep}), ElementsAre("control | ", "fedavg | "));
}

TEST(FindRuns, CellsOfTwoSweepsMeetOnlyWhereTheExperimentIsTheSame) {
  const Shelf shelf;
  const std::string one = shelf.sweep("one", {"x fedavg iid 1", "y fedavg skew 1"});
  shelf.finish("one/x");
  shelf.finish("one/y", {"federation.fraction=1.0"});
  const std::string two = shelf.sweep("two", {"x fedavg iid 2", "y fedavg skew 2"});
  shelf.finish("two/x", {"seed=2"});
  shelf.finish("two/y", {"federation.fraction=1.0", "seed=2", "train.lr=0.5"});
  EXPECT_THAT(labels({one, two}), ElementsAre("fedavg | iid", "fedavg, lr = 0.05 | skew",
                                              "fedavg | iid", "fedavg, lr = 0.5 | skew"));
  const std::string three = shelf.sweep("three", {"x fedprox iid 1"});
  shelf.finish("three/x", {"method.name=fedprox", "data.samples=320"});
  EXPECT_THAT(labels({one, three}), ElementsAre("fedavg | iid, samples = 160", "fedavg | skew",
                                                "fedprox | iid, samples = 320"));
}

TEST(FindRuns, ACellMadeFromTwoExperimentsIsTwoRows) {
  const Shelf shelf;
  const std::string sweep = shelf.sweep("s", {"x fedavg - 1", "y fedavg - 2"});
  shelf.finish("s/x");
  shelf.finish("s/y", {"seed=2", "rounds=9"});
  EXPECT_THAT(labels({sweep}), ElementsAre("fedavg, rounds = 4 | ", "fedavg, rounds = 9 | "));
}

TEST(FindRuns, WhatIsNotBegunBelongsToItsCell) {
  const Shelf shelf;
  const std::string one = shelf.sweep("one", {"x fedavg - 1", "y fedavg - 2"});
  shelf.finish("one/x");
  EXPECT_THAT(labels({one}), ElementsAre("fedavg | ", "fedavg | "));
  const std::string two = shelf.sweep("two", {"x fedavg - 3"});
  EXPECT_THAT(labels({one, two}), ElementsAre("fedavg | ", "fedavg | ", "fedavg, " + two + " | "))
      << "nobody knows its experiment";
}

TEST(FindRuns, PublishedFiguresGoWithTheirCells) {
  const Shelf shelf;
  const std::string one = shelf.sweep("one", {"x fedavg - 1", "y own - 1"},
                                      R"({"metric": "best", "figures": {"fedavg": 81.5}})");
  const std::string two =
      shelf.sweep("two", {"x fedavg iid 1", "y fedavg skew 1"},
                  R"({"metric": "best", "figures": {"fedavg": {"iid": 70, "none": 1}}})");
  std::vector<double> figures;
  for (const RunPlace& place : find_runs({one, two})) {
    const auto found = place.published.find("best");
    figures.push_back(found == place.published.end() ? 0.0 : found->second.value);
  }
  EXPECT_THAT(figures, ElementsAre(81.5, 0.0, 70.0, 0.0));
  EXPECT_THAT(read_sweep_index(one).paper_metrics, ElementsAre("best"));
}

}  // namespace winnow::find_runs_test
