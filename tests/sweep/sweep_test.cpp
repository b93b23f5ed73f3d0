#include "winnow/sweep/sweep_index.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "run/small_run.h"
#include "winnow/sweep/paper.h"

namespace winnow::sweep_test {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

// A sweep file of the running test: the small experiment and the given parts.
class SweepFile {
 public:
  explicit SweepFile(const std::string& parts) { write_file_whole(path(), small_toml() + parts); }
  fs::path path() const { return folder_ / "s.toml"; }
  Sweep load(const std::vector<Override>& overrides = {}) const {
    return load_sweep(path(), overrides, builtin_registry());
  }
  // The message without the file, which it must begin with.
  std::string error(const std::vector<Override>& overrides = {}) const {
    const std::string text = error_text([&] { load(overrides); });
    const std::string start = path().string() + ": ";
    EXPECT_THAT(text, StartsWith(start));
    return text.substr(std::min(start.size(), text.size()));
  }

 private:
  TestFolder folder_;
};

std::string load_error(const std::string& parts) {
  return SweepFile(parts).error();
}

std::vector<std::string> ids(const Sweep& sweep) {
  std::vector<std::string> result;
  for (const SweepRun& run : sweep.runs) {
    result.push_back(run.id);
  }
  return result;
}

TEST(Sweep, AGridIsAllCombinations) {
  const Sweep sweep = SweepFile(R"toml(
[grid]
"method.name" = ["fedavg", "fedprox"]
"noise.0.rho" = [0.25, 1]
seed = [1, 2]
)toml")
                          .load();
  EXPECT_EQ(sweep.name, "small");
  EXPECT_THAT(ids(sweep),
              ElementsAre("fedavg_rho=0.25_s1", "fedavg_rho=0.25_s2", "fedavg_rho=1_s1",
                          "fedavg_rho=1_s2", "fedprox_rho=0.25_s1", "fedprox_rho=0.25_s2",
                          "fedprox_rho=1_s1", "fedprox_rho=1_s2"));
  const SweepRun& run = sweep.runs[5];
  EXPECT_EQ(run.row, "fedprox");
  EXPECT_EQ(run.column, "rho=0.25");
  EXPECT_EQ(run.seed, 2U);
  EXPECT_EQ(run.experiment.seed, 2U);
  EXPECT_EQ(run.experiment.method, "fedprox");
  EXPECT_EQ(label_noise(run.experiment, 0).values().at("rho"), 0.25);
}

TEST(Sweep, WithoutRowsTheMethodIsTheRow) {
  const Sweep sweep = SweepFile("[grid]\nseed = [3, 4]\n").load();
  EXPECT_THAT(ids(sweep), ElementsAre("fedavg_s3", "fedavg_s4"));
  EXPECT_EQ(sweep.runs[0].row, "fedavg");
  EXPECT_EQ(sweep.runs[0].column, "");
}

TEST(Sweep, RowsAndColumnsHaveNames) {
  const Sweep sweep = SweepFile(R"toml(
[[row]]
name = "ours (mu = 1)"
set = { "method.name" = "fedprox", "method.mu" = 1 }
[[row]]
name = "FedAvg"
set = {}
[[column]]
name = "clean"
set = { noise = [] }
[[column]]
name = "60% noisy"
[grid]
"train.lr" = [0.1]
seed = [7]
)toml")
                          .load();
  EXPECT_THAT(ids(sweep),
              ElementsAre("ours-mu-=-1_clean-lr=0.1_s7", "ours-mu-=-1_60-noisy-lr=0.1_s7",
                          "FedAvg_clean-lr=0.1_s7", "FedAvg_60-noisy-lr=0.1_s7"));
  EXPECT_EQ(sweep.runs[0].row, "ours (mu = 1)");
  EXPECT_EQ(sweep.runs[1].column, "60% noisy, lr=0.1");
  EXPECT_TRUE(sweep.runs[0].experiment.noise.empty());
  EXPECT_EQ(sweep.runs[1].experiment.noise.size(), 1U);
  EXPECT_EQ(sweep.runs[0].experiment.method_params.dump(),
            R"toml({"mu":1.0,"weighting":"samples"})toml");
  EXPECT_EQ(sweep.runs[2].experiment.method, "fedavg");
}

TEST(Sweep, CarriesPublishedFiguresOfSeveralMetrics) {
  const std::string rows = "[[row]]\nname = \"a\"\n[[row]]\nname = \"b\"\n";
  const Sweep sweep = SweepFile(rows + R"toml(
[[paper]]
source = "A paper, Table 1"
metric = "best"
figures = { a = 81.2, b = 92 }
deviations = { a = 0.5 }
[[paper]]
metric = "flag_precision"
figures = { b = 0.9 }
)toml")
                          .load();
  EXPECT_THAT(paper_metrics(sweep.paper), ElementsAre("best", "flag_precision"));
  const PublishedByMetric a = published_for(sweep.paper, "a", "");
  ASSERT_EQ(a.size(), 1U);
  EXPECT_EQ(a.at("best").value, 81.2);
  EXPECT_EQ(a.at("best").deviation, 0.5);
  const PublishedByMetric b = published_for(sweep.paper, "b", "");
  EXPECT_EQ(b.at("best").deviation, std::nullopt);
  EXPECT_EQ(b.at("flag_precision").value, 0.9);

  const std::string twice = "[[paper]]\nmetric = \"best\"\nfigures = {}\n";
  EXPECT_EQ(load_error(rows + twice + twice),
            "paper.1.metric = \"best\": the metric has a block already | put all its figures into "
            "one");
  EXPECT_THAT(load_error(rows + twice + "deviations = { c = 1 }\n"),
              StartsWith("paper.0.deviations: the sweep has no row 'c'"));
  EXPECT_THAT(load_error(rows + twice + "table = 2\n"),
              StartsWith("paper.0: unexpected 'table' | "));
}

TEST(Sweep, ACellKeepsItsDigestWhereverFilesLieAndWhateverTheSeed) {
  const auto cell = [](const std::string& parts, const std::vector<Override>& overrides = {}) {
    return SweepFile("[grid]\nseed = [1, 2]\n" + parts).load(overrides).runs;
  };
  const std::vector<SweepRun> runs = cell("");
  EXPECT_EQ(runs[0].cell, runs[1].cell);
  EXPECT_EQ(runs[0].cell.size(), 16U);
  EXPECT_EQ(cell("", {{"checkpoint_every", "7"}})[0].cell, runs[0].cell);
  EXPECT_NE(cell("", {{"train.lr", "0.5"}})[0].cell, runs[0].cell);
  EXPECT_EQ(cell("", {{"model.weights", "/a/w.safetensors"}})[0].cell,
            cell("", {{"model.weights", "/b/w.safetensors"}})[0].cell);
}

TEST(Sweep, CarriesPublishedFiguresOfItsOwnCells) {
  const std::string rows = R"toml(
[[row]]
name = "a"
[[row]]
name = "b"
)toml";
  const Sweep sweep =
      SweepFile(rows + "[paper]\nmetric = \"best\"\nfigures = { a = 81.2, b = 92 }\n").load();
  EXPECT_EQ(sweep.paper[0]["figures"]["a"], 81.2);
  const auto text = [&](const std::string& paper) {
    return error_text([&] { SweepFile(rows + "[paper]\n" + paper).load(); });
  };
  EXPECT_THAT(text("metric = \"best\"\nfigures = { aa = 1 }\n"),
              HasSubstr("paper.figures: the sweep has no row 'aa'"));
  EXPECT_THAT(text("metric = \"best\"\nfigures = { a = \"high\" }\n"),
              HasSubstr("paper.figures.\"a\": expected a number, found \"high\""));
  EXPECT_THAT(text("figures = { a = 1 }\n"), HasSubstr("paper: expected metric"));
  EXPECT_THAT(text("metric = \"best\"\nfigures = { a = 1 }\n[[column]]\nname = \"c\"\n"),
              HasSubstr("paper.figures.\"a\": expected { \"column\" = number }"));
}

TEST(Sweep, AMethodAxisBesideNamedRowsIsAColumn) {
  const Sweep sweep = SweepFile(R"toml(
[[row]]
name = "lr 1"
set = { "train.lr" = 1 }
[grid]
"method.name" = ["fedavg", "fedprox"]
)toml")
                          .load();
  EXPECT_THAT(ids(sweep), ElementsAre("lr-1_fedavg_s1", "lr-1_fedprox_s1"));
}

TEST(Sweep, ValuesThatAreTablesAreCalledByTheirNames) {
  const Sweep sweep = SweepFile(R"toml(
[grid]
"federation.partition" = ["iid_split", { name = "shards", shards_per_client = 1 }]
)toml")
                          .load();
  EXPECT_THAT(ids(sweep), ElementsAre("fedavg_iid-split_s1", "fedavg_shards_s1"));
  EXPECT_EQ(sweep.runs[1].experiment.federation.partition.values().at("shards_per_client"), 1);
}

TEST(Sweep, OverridesApplyToEveryRun) {
  const SweepFile file("[grid]\nseed = [1, 2]\n");
  for (const SweepRun& run : file.load({{"rounds", "9"}}).runs) {
    EXPECT_EQ(run.experiment.rounds, 9);
  }
}

TEST(Sweep, AnOverrideThatTheGridWouldUndoIsRefused) {
  const SweepFile file("[grid]\nseed = [1, 2]\n");
  EXPECT_EQ(file.error({{"seed", "5"}}),
            "seed is an axis of the [grid]: it cannot be overridden | choose among the runs with "
            "--only, or change the file");
  EXPECT_THAT(ids(file.load({{"grid.seed", "[5]"}})), ElementsAre("fedavg_s5"));
}

TEST(Sweep, PathsOfRowsAreMadeAbsoluteToo) {
  const Sweep sweep = SweepFile(R"toml(
[[row]]
name = "pretrained"
set = { "model.weights" = "w.safetensors" }
)toml")
                          .load();
  EXPECT_TRUE(fs::path(sweep.runs[0].experiment.model.weights).is_absolute());
  EXPECT_THAT(sweep.runs[0].experiment.model.weights, EndsWith("/w.safetensors"));
}

TEST(Sweep, TheFileNameStandsInForAMissingName) {
  const TestFolder folder;
  write_file_whole(folder / "compare.toml", "[grid]\nseed = [1]\n");
  EXPECT_EQ(load_sweep(folder / "compare.toml", {}, builtin_registry()).name, "compare");
}

TEST(Sweep, AFileWithoutAnAxisIsRefused) {
  EXPECT_EQ(load_error(""),
            "there is nothing to sweep over | add a [grid], [[row]], [[column]] or methods, or use "
            "winnow run");
  EXPECT_THAT(load_error("[grid]\n"), HasSubstr("there is nothing to sweep over"));
}

TEST(Sweep, PartsOfTheWrongShapeAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"[grid]\nseed = 1", "grid.\"seed\": expected a list of values"},
      {"[grid]\nseed = []", "grid.\"seed\": expected a list of values"},
      {"[row]\nname = 'a'", "row: expected a list of tables | write [[row]]"},
      {"[column]\nname = 'a'", "column: expected a list of tables | write [[column]]"},
      {"[[row]]\nset = {}", "[[row]]: an entry has no name"},
      {"[[row]]\nname = 'a'\nsets = {}", "[[row]]: unexpected 'sets' | it takes name"},
      {"[[row]]\nname = 'a'\nset = 3", "[[row]]: unexpected 'set'"},
      {"[[row]]\nname = 3", "[[row]]: unexpected 'name'"},
  };
  for (const auto& [parts, expected] : cases) {
    EXPECT_THAT(load_error(parts), StartsWith(expected)) << parts;
  }
  const TestFolder folder;
  const auto plain = [&](const std::string& text) {
    write_file_whole(folder / "p.toml", text);
    return error_text([&] { load_sweep(folder / "p.toml", {}, builtin_registry()); });
  };
  EXPECT_THAT(plain("row = []"), EndsWith("row: the list is empty"));
  EXPECT_THAT(plain("column = []"), EndsWith("column: the list is empty"));
  EXPECT_THAT(plain("row = [1]"), EndsWith("row: expected a list of tables"));
  EXPECT_THAT(plain("grid = 3"), EndsWith("grid: expected a table of keys to lists"));
}

TEST(Sweep, ABadRunIsNamedBeforeAnyIsStarted) {
  EXPECT_EQ(
      load_error("[grid]\n\"train.lr\" = [0.1, -1]\n"),
      "run 'lr=-1': train.lr = -1: expected a number >= 0 | learning rate of the first round");
  EXPECT_EQ(
      load_error("[[row]]\nname = 'a'\nset = { \"train.momentun\" = 1 }\n[grid]\nseed = [1]\n"),
      "run 'a, seed=1': unknown key 'train.momentun' | did you mean 'train.momentum'?");
  EXPECT_EQ(load_error("[[row]]\nname = 'a'\nset = { \"noise.3.rho\" = 1 }\n"),
            "run 'a': noise.3.rho: '3' is not a place in a list of 1");
  EXPECT_EQ(load_error("[grid]\n\"method.name\" = ['fedavg', 'fedprx']\n"),
            "run 'fedprx': unknown method 'fedprx' | did you mean 'fedprox'?");
  EXPECT_EQ(error_kind([] { SweepFile("[grid]\n\"seed.x\" = [1]\n").load(); }),
            ErrorKind::experiment);
}

TEST(Sweep, RunsMustHaveDifferentNames) {
  EXPECT_EQ(
      load_error("[[row]]\nname = 'a b'\n[[row]]\nname = 'a-b'\n"),
      "two runs of the grid are both called 'a-b_s1' | give rows and columns names that differ");
  EXPECT_THAT(load_error("[grid]\nseed = [1, 1]\n"), HasSubstr("both called 'fedavg_s1'"));
}

TEST(Sweep, AGridThatWouldRunForEverIsRefused) {
  const auto axis = [](const std::string& key, std::size_t values) {
    std::vector<std::string> list;
    for (std::size_t i = 0; i < values; ++i) {
      list.push_back(std::to_string(i + 1));
    }
    return fmt::format("\"{}\" = [{}]\n", key, join(list, ", "));
  };
  const std::string expected =
      "the grid has more than 100000 runs | leave out values, or cut it into several files";
  std::string grid = "[grid]\n";
  for (int i = 0; i < 12; ++i) {  // 100^12 does not fit into 64 bits
    grid += axis(fmt::format("method.m{}", i), 100);
  }
  EXPECT_EQ(load_error(grid), expected);
  EXPECT_EQ(load_error("[grid]\n" + axis("seed", 1000) + axis("rounds", 101)), expected);
  // Exactly the limit is taken: only then are the runs made, and the first says what is wrong.
  EXPECT_THAT(load_error("[grid]\n" + axis("seed", 1000) + axis("train.nothing", 100)),
              StartsWith("run 'seed=1, nothing=1': unknown key 'train.nothing'"));
}

TEST(Sweep, AllMethodsAreRowsWithTheirShortSchedules) {
  const Sweep sweep =
      SweepFile("[validation]\nsource = \"split\"\n").load({{"methods", "\"all\""}});
  ASSERT_EQ(sweep.runs.size(), builtin_methods().size());
  for (const SweepRun& run : sweep.runs) {
    const MethodInfo& info = builtin_methods().find(run.experiment.method);
    EXPECT_EQ(run.row, info.name + (info.truth == Truth::none ? "" : " (uses ground truth)"));
    const Json resolved = run.experiment.resolved();
    for (const auto& [key, value] : info.smoke.items()) {
      const std::vector<std::string> parts = split(key, '.');
      EXPECT_EQ(parts.size() == 1 ? resolved.at(key) : resolved.at(parts[0]).at(parts[1]), value)
          << info.name << " " << key;
    }
  }
}

// Its rank would mean nothing. Who wants its row there names it.
TEST(Sweep, AllMethodsOfAnArenaAreThoseThatCompete) {
  Registry registry = builtin_registry();
  MethodInfo judge = registry.methods.find("fedavg");
  judge.name = "judge";
  judge.competes = false;
  registry.methods.add(judge);
  const auto rows = [&](const std::string& methods, const std::string& more) {
    const SweepFile file("[validation]\nsource = \"split\"\n" + more);
    std::set<std::string> names;
    for (const SweepRun& run : load_sweep(file.path(), {{"methods", methods}}, registry).runs) {
      names.insert(run.row);
    }
    return names;
  };
  const std::string arena = "[arena]\nreference = \"fedavg\"\n";
  EXPECT_FALSE(rows("\"all\"", arena).contains("judge"));
  EXPECT_FALSE(rows("\"all\"", arena).contains("audit"));
  EXPECT_TRUE(rows("\"all\"", arena).contains("fedavg"));
  EXPECT_TRUE(rows("\"all\"", "").contains("judge"));
  EXPECT_TRUE(rows("\"all\"", "").contains("audit"));
  EXPECT_THAT(rows("[\"judge\", \"fedavg\"]", arena), ElementsAre("fedavg", "judge"));
}

TEST(Sweep, SomeMethodsAreRowsInTheirOrder) {
  const Sweep sweep = SweepFile("").load({{"methods", "[\"fedprox\", \"fedavg\"]"}});
  EXPECT_THAT(ids(sweep), ElementsAre("fedprox_s1", "fedavg_s1"));
  EXPECT_EQ(SweepFile("").error({{"methods", "[]"}}),
            "methods = []: expected \"all\" or a list of names | 'winnow list methods' shows them "
            "all");
  EXPECT_EQ(SweepFile("").error({{"methods", "[\"fedpros\"]"}}),
            "unknown method 'fedpros' | did you mean 'fedprox'?");
  EXPECT_EQ(
      SweepFile("[[row]]\nname = \"a\"\n").error({{"methods", "\"all\""}}),
      "methods and [[row]] are both there | methods has a row for each method; leave one out");
}

TEST(Sweep, AScheduleTakesThePlaceOfShortOnesAndOthersKeepTheirDefaults) {
  const SweepFile file(R"toml(
[schedule]
fedrn = { "method.warmup" = 7, rounds = 9 }
)toml");
  const Sweep sweep = file.load({{"methods", "[\"fedrn\", \"coteaching\"]"}});
  ASSERT_EQ(sweep.runs.size(), 2U);
  EXPECT_EQ(sweep.runs[0].experiment.rounds, 9);
  EXPECT_EQ(sweep.runs[0].experiment.method_params.at("warmup"), 7);
  EXPECT_EQ(sweep.runs[1].experiment.rounds, 4) << "as the file has it";
  EXPECT_EQ(sweep.runs[1].experiment.method_params.at("ramp"), 100) << "its default";
}

TEST(Sweep, TheSmallFormOfAScheduleIsTheShortOneOfTheMethod) {
  const SweepFile file(R"toml(
[schedule]
clipfl = { rounds = 60, "method.pre_rounds" = 40 }
[validation]
source = "split"
[smoke]
methods = ["fedavg", "clipfl"]
)toml");
  const Sweep sweep =
      load_sweep(file.path(), {{"methods", "\"all\""}}, builtin_registry(), Scale::smoke);
  EXPECT_THAT(ids(sweep), ElementsAre("fedavg_s1", "clipfl_s1"));
  EXPECT_EQ(sweep.runs[1].experiment.rounds, 6);
  EXPECT_EQ(sweep.runs[1].experiment.method_params.at("pre_rounds"), 3);
}

TEST(Sweep, AScheduleThatDoesNotFitIsNamed) {
  EXPECT_EQ(SweepFile("[schedule]\nfedpros = {}\n").error({{"methods", "\"all\""}}),
            "unknown method 'fedpros' | did you mean 'fedprox'?");
  EXPECT_EQ(SweepFile("[schedule]\nfedprox = 3\n").error({{"methods", "\"all\""}}),
            "schedule.fedprox: expected a table of keys to values | such as fedrn = { "
            "\"method.warmup\" = 20 }");
  EXPECT_EQ(load_error("[schedule]\nfedprox = {}\n[grid]\nseed = [1]\n"),
            "schedule is there without methods | it says what the rows of methods = \"all\" set");
}

TEST(Sweep, StatusIsReadFromTheDirectory) {
  const TestFolder folder;
  EXPECT_EQ(run_status(folder / "x"), RunStatus::missing);
  EXPECT_EQ(run_status(folder.path()), RunStatus::missing);
  write_file_whole(folder / "experiment.toml", "");
  EXPECT_EQ(run_status(folder.path()), RunStatus::started);
  write_file_whole(folder / "summary.json", "{}");
  EXPECT_EQ(run_status(folder.path()), RunStatus::finished);
}

TEST(Sweep, TheIndexListsEveryRun) {
  const TestFolder folder;
  write_file_whole(folder / "s.toml", small_toml() + std::string("[grid]\nseed = [1, 2]\n"));
  const Sweep sweep = load_sweep(folder / "s.toml", {}, builtin_registry());
  write_sweep_index(folder.path(), sweep);
  const Json index = Json::parse(read_file(folder / "sweep.json"));
  EXPECT_EQ(index.at("name"), "small");
  EXPECT_EQ(index.at("runs").size(), 2U);
  EXPECT_EQ(index.at("runs")[1].dump(),
            R"toml({"id":"fedavg_s2","row":"fedavg","column":"","seed":2,"cell":")toml" +
                sweep.runs[1].cell + R"toml("})toml");
}

}  // namespace winnow::sweep_test
