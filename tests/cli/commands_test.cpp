#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "cli/program.h"
#include "winnow/base/text.h"
#include "winnow/data/image_files.h"
#include "winnow/experiment/registry.h"
#include "winnow/run/metrics.h"
#include "winnow/run/runner.h"

namespace winnow::commands_test {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

namespace fs = std::filesystem;

// An error with this exit code that says this, on one line and a hint, without a trace.
void expect_error(const Ended& ended, int code, const std::string& message) {
  EXPECT_EQ(ended.code, code) << ended.err;
  EXPECT_EQ(ended.out, "");
  EXPECT_THAT(ended.err, StartsWith("winnow: "));
  EXPECT_THAT(ended.err, HasSubstr(message));
  EXPECT_LE(lines(ended.err), 2U) << ended.err;
}

TEST(Run, WritesADirectoryAndASummary) {
  const Workshop shop;
  const Ended ended = shop.done({"run", "e.toml"});
  EXPECT_THAT(ended.out, HasSubstr("small: fedavg, seed 1\n"));
  EXPECT_THAT(ended.out, HasSubstr("  directory        runs/small\n"));
  for (const char* line :
       {"  best             [0-9]+\\.[0-9][0-9]%\n", "  last ten rounds  [0-9]+\\.[0-9][0-9]%\n",
        "  traffic          [0-9.]+ [kM]B\n", "  wall time        [0-9.]+s\n"}) {
    EXPECT_THAT(ended.out, ContainsRegex(line));
  }
  EXPECT_THAT(ended.err, HasSubstr("small: fedavg on synthetic, 4 clients, 4 rounds, "));
  EXPECT_THAT(
      ended.err,
      ContainsRegex("round 4/4  accuracy [0-9]+\\.[0-9][0-9]%  best [0-9]+\\.[0-9][0-9]%  "));
  const Json summary = read_summary(shop / "runs/small");
  EXPECT_THAT(ended.out, HasSubstr(summary.at("model_hash").get<std::string>().substr(0, 16)));
  EXPECT_THAT(names_in(shop / "."), ElementsAre("e.toml", "runs"));
}

TEST(Run, JsonIsTheSummary) {
  const Workshop shop;
  const Ended ended = shop.done({"run", "e.toml", "--json", "--quiet"});
  EXPECT_EQ(ended.json(), read_summary(shop / "runs/small"));
  EXPECT_EQ(ended.err, "");
}

TEST(Run, QuietPrintsTheResultAlone) {
  const Workshop shop;
  for (const Words& words : {Words{"run", "e.toml", "-q"}, {"resume", "runs/small", "--quiet"}}) {
    const Ended ended = shop.done(words);
    EXPECT_THAT(ended.out, StartsWith("small: fedavg, seed 1\n  best "));
    EXPECT_EQ(ended.err, "");
  }
}

TEST(Run, FlagsReachTheRun) {
  const Workshop shop;
  const Json summary = shop.done({"run", "e.toml", "--set", "method.name=fedprox", "--set",
                                  "method.mu=0.5", "--set", "rounds=2", "--seed", "7", "--lanes",
                                  "3", "--device", "cpu", "--out", "here/", "--json"})
                           .json();
  EXPECT_EQ(summary.at("method"), "fedprox");
  EXPECT_EQ(summary.at("seed"), 7);
  EXPECT_EQ(summary.at("rounds"), 2);
  EXPECT_EQ(summary.at("lanes"), 3);
  EXPECT_EQ(summary.at("device"), "cpu");
  EXPECT_THAT(names_in(shop / "."), ElementsAre("e.toml", "here"));
  EXPECT_DOUBLE_EQ(
      read_run_experiment(shop / "here", builtin_registry()).method_params.at("mu").get<double>(),
      0.5);
}

TEST(Run, TheNumberOfLanesDoesNotChangeTheResult) {
  const Workshop shop;
  for (const char* lanes : {"1", "2", "5"}) {
    shop.done({"run", "e.toml", "--lanes", lanes, "--out", lanes, "--quiet"});
  }
  const auto expected = hashes(read_history(shop / "1"));
  EXPECT_EQ(expected.size(), 4U);
  EXPECT_EQ(hashes(read_history(shop / "2")), expected);
  EXPECT_EQ(hashes(read_history(shop / "5")), expected);
}

TEST(Run, ExitCodesAreTheDocumentedOnes) {
  const Workshop shop;
  expect_error(shop.call({"run", "e.toml", "--set", "train.lrr=1"}), 3,
               "e.toml: unknown key 'train.lrr'\n  did you mean 'train.lr'?\n");
  expect_error(shop.call({"run", "none.toml"}), 3, "cannot read none.toml: no such file");
  expect_error(shop.call({"run", "e.toml", "--set", "federation.clients=1000"}), 3, "1000");
  expect_error(
      shop.call({"run", "e.toml", "--set", "data.name=cifar10", "--set", "data.path=nowhere"}), 4,
      "data set 'cifar10' not found: looked for ");
  expect_error(shop.call({"run", "e.toml", "--device", "tpu"}), 2, "--device tpu: expected cpu");
  expect_error(shop.call({"run", "e.toml", "--out", "."}), 5,
               ". exists already and is not a run directory\n  choose another --out");
  expect_error(shop.call({"run", "e.toml", "--out", "e.toml/run"}), 5, "cannot create e.toml/run");
  expect_error(shop.call({"run", "e.toml", "--out", std::string(300, 'x')}), 5,
               "File name too long");
  EXPECT_THAT(names_in(shop / "."), ElementsAre("e.toml")) << "nothing half-written";
}

TEST(Run, TrainingThatDivergesIsOneLine) {
  const Workshop shop;
  const Ended ended = shop.call({"run", "e.toml", "--set", "train.lr=1e30", "--quiet"});
  expect_error(ended, 5, "values that are not finite");
  EXPECT_FALSE(fs::exists(shop / "runs/small/summary.json"));
}

TEST(Run, AnExistingDirectoryIsRefusedWithTheWayOn) {
  const Workshop shop;
  shop.done({"run", "e.toml", "--quiet"});
  expect_error(shop.call({"run", "e.toml", "--quiet"}), 5,
               "runs/small holds a finished run\n  replace it with --force, or choose another "
               "--out\n");
  fs::remove(shop / "runs/small/summary.json");
  expect_error(shop.call({"run", "e.toml", "--quiet"}), 5,
               "runs/small holds a run that is not finished\n  continue it with 'winnow resume "
               "runs/small', replace it with --force, or choose another --out\n");
}

TEST(Run, ForceReplacesARun) {
  const Workshop shop;
  shop.done({"run", "e.toml", "--quiet"});
  shop.done({"run", "e.toml", "--quiet", "--force", "--set", "rounds=2"});
  EXPECT_EQ(read_summary(shop / "runs/small").at("rounds"), 2);
  shop.done({"run", "e.toml", "--quiet", "--force", "--out", "new"});
}

TEST(Run, ForceLeavesAloneWhatIsNoRun) {
  const Workshop shop;
  fs::create_directories(shop / "photos");
  write_file_whole(shop / "photos/cat.txt", "mine");
  expect_error(shop.call({"run", "e.toml", "--quiet", "--force", "--out", "photos"}), 5,
               "photos is not a run directory\n  nothing was removed; choose another --out");
  EXPECT_EQ(read_file(shop / "photos/cat.txt"), "mine");
  shop.done({"run", "e.toml", "--quiet", "--out", "r"});
  expect_error(shop.call({"run", "e.toml", "--force", "--out", "r", "--set", "data.name=cifar10",
                          "--set", "data.path=nowhere"}),
               4, "not found");
  EXPECT_TRUE(fs::exists(shop / "r/summary.json")) << "removed only when the new run can start";
}

TEST(Resume, OfAFinishedRunShowsItsSummaryAgain) {
  const Workshop shop;
  const Json summary = shop.done({"run", "e.toml", "--json"}).json();
  EXPECT_EQ(shop.done({"resume", "runs/small", "--json"}).json(), summary);
  const Ended again = shop.done({"resume", "runs/small/"});
  EXPECT_THAT(again.out, HasSubstr("small: fedavg, seed 1"));
  EXPECT_EQ(again.err, "runs/small/ is finished; this is its result\n");
  expect_error(shop.call({"resume", "runs"}), 5, "runs is not a run directory");
}

TEST(Verify, TellsAnHonestRunFromAForgedOne) {
  const Workshop shop;
  shop.done({"run", "e.toml", "--quiet"});
  EXPECT_EQ(shop.done({"verify", "runs/small"}).out,
            "4 rounds verified, every model hash agrees\n");
  EXPECT_EQ(shop.done({"verify", "runs/small", "--json", "--rounds", "2"}).json().at("compared"),
            2);

  const std::string honest = read_history(shop / "runs/small").at(2).hash;
  std::string events = read_file(shop / "runs/small/events.jsonl");
  events.replace(events.find(honest), 64, std::string(64, '0'));
  write_file_whole(shop / "runs/small/events.jsonl", events);
  const Ended text = shop.call({"verify", "runs/small"});
  EXPECT_EQ(text.code, 7);
  EXPECT_THAT(text.out, StartsWith("round 3 differs\n"));
  const Ended json = shop.call({"verify", "runs/small", "--json"});
  EXPECT_EQ(json.code, 7);
  EXPECT_EQ(json.json().at("differs_at"), 3);
  EXPECT_EQ(json.json().at("recomputed"), honest);
  EXPECT_EQ(shop.call({"verify", "runs/small", "--rounds", "2"}).code, 0);
  expect_error(shop.call({"verify", "runs"}), 5, "is not a run directory");
}

TEST(Table, ComparesRunsOfDifferentMethods) {
  const Workshop shop;
  shop.done({"run", "e.toml", "--quiet", "--out", "a"});
  shop.done({"run", "e.toml", "--quiet", "--out", "b", "--set", "method=fedprox"});
  const Ended text = shop.done({"table", "a", "b"});
  EXPECT_THAT(text.out, HasSubstr("fedavg"));
  EXPECT_THAT(text.out, HasSubstr("fedprox"));
  const Json json = shop.done({"table", "a", "b", "--json", "--metric", "best,last"}).json();
  EXPECT_EQ(json.size(), 4U);
  EXPECT_EQ(json[0].at("row"), "fedavg");
  expect_error(shop.call({"table", "a", "nowhere"}), 5, "nowhere does not exist");
  expect_error(shop.call({"table", "a", "--metric", "beauty"}), 2, "beauty");
  expect_error(shop.call({"table", "a", "--format", "pdf"}), 2, "pdf");
  write_file_whole(shop / "a/summary.json", "{}");
  expect_error(shop.call({"table", "a"}), 5, "a/summary.json is damaged");
}

TEST(Table, MeansAreOverSeedsAndOverNothingElse) {
  const Workshop shop;
  const auto play = [&](const std::string& name, const Words& more) {
    Words words{"run", "e.toml", "--quiet", "--out", name};
    words.insert(words.end(), more.begin(), more.end());
    shop.done(words);
  };
  play("a", {});
  play("a2", {"--seed", "2"});
  play("b", {"--set", "rounds=2"});
  const auto cells = [&](const Words& directories) {
    Words words{"table", "--json", "--metric", "last"};
    words.insert(words.end(), directories.begin(), directories.end());
    std::map<std::string, int> runs;
    for (const Json& cell : shop.done(words).json()) {
      runs[cell.at("row").get<std::string>()] = cell.at("runs").get<int>();
    }
    return runs;
  };
  using Cells = std::map<std::string, int>;
  EXPECT_EQ(cells({"a", "a2", "b"}), (Cells{{"fedavg, rounds = 4", 2}, {"fedavg, rounds = 2", 1}}));
  EXPECT_EQ(cells({"a", "a2"}), (Cells{{"fedavg", 2}}));
  for (const char* command : {"table", "report"}) {
    expect_error(shop.call({command, "a", "a"}), 2, "a is given twice");
  }
  fs::copy(shop / "a", shop / "copy", fs::copy_options::recursive);
  for (const char* command : {"table", "report"}) {
    expect_error(shop.call({command, "a", "copy"}), 2,
                 "a and copy are runs of one experiment with the same seed, 1");
  }
  const Json page = shop.done({"report", "a", "b", "--json"}).json();
  EXPECT_EQ(page.at("runs").at(1).at("row"), "fedavg, rounds = 2");
  fs::remove(shop / "a2/summary.json");
  EXPECT_THAT(shop.done({"table", "a", "a2", "--metric", "last"}).out,
              HasSubstr("(1 of 2 done)\n"));
}

// Versions that evaluated the last round alone left a mean over ten evaluations in their summary.
TEST(Table, Last10OfARunWithoutThoseEvaluationsIsADash) {
  const Workshop shop;
  shop.done({"run", "e.toml", "--quiet", "--out", "a", "--set", "rounds=12"});
  EXPECT_THAT(shop.done({"table", "a", "--metric", "last10", "-f", "csv"}).out,
              ::testing::ContainsRegex("last10,[0-9.]+,,1,0\n"));
  std::string events;
  for (const std::string& line : split(read_file(shop / "a/events.jsonl"), '\n')) {
    Json event = Json::parse(line, nullptr, false);
    if (event.is_object() && event.value("round", 0) % 12 == 5) {
      event["accuracy"] = nullptr;
    }
    events += event.is_object() ? event.dump() + "\n" : "";
  }
  write_file_whole(shop / "a/events.jsonl", events);
  EXPECT_THAT(shop.done({"table", "a", "--metric", "last10", "-f", "csv"}).out,
              HasSubstr("last10,,,0,0\n"));
}

// spec: baselines 27
TEST(Table, SaysWhichRunUsesGroundTruth) {
  const Workshop shop;
  shop.done({"run", "e.toml", "--quiet", "--out", "plain"});
  shop.done({"run", "e.toml", "--quiet", "--out", "bound", "--set", "method=oracle"});
  EXPECT_EQ(read_summary(shop / "bound").at("uses_ground_truth"), true);
  EXPECT_FALSE(read_summary(shop / "plain").contains("uses_ground_truth"));
  EXPECT_THAT(shop.done({"table", "plain", "bound"}).out,
              AllOf(HasSubstr("\noracle (uses ground truth)  "), HasSubstr("\nfedavg  "),
                    Not(HasSubstr("*"))));
}

// The program prints them group by group, so a group must not begin a second time.
TEST(List, MethodsStandInTheirGroups) {
  Words groups;
  Words names;
  const Json list = Workshop().done({"list", "methods", "--json"}).json();
  for (const Json& method : list) {
    const auto group = method.at("group").get<std::string>();
    if (groups.empty() || groups.back() != group) {
      groups.push_back(group);
    }
    names.push_back(method.at("name").get<std::string>());
  }
  EXPECT_EQ(std::set<std::string>(groups.begin(), groups.end()).size(), groups.size());
  EXPECT_EQ(groups.front(), "system");
  EXPECT_EQ(names, builtin_methods().names());
}

TEST(List, EveryKindOfThingInTextAndJson) {
  const Workshop shop;
  std::set<std::string> names{"experiment", "data", "federation", "model", "train"};
  std::size_t count = names.size();
  for (const char* what :
       {"methods", "models", "datasets", "partitions", "noises", "distortions", "engines"}) {
    const Json list = shop.done({"list", what, "--json"}).json();
    ASSERT_FALSE(list.empty()) << what;
    for (const Json& entry : list) {
      EXPECT_NE(entry.at("summary"), "") << entry.dump();
      names.insert(entry.at("name").get<std::string>());
    }
    count += list.size();
  }
  EXPECT_EQ(names.size(), count) << "a name that stands for two things cannot be described";
  EXPECT_THAT(shop.done({"list", "methods"}).out, HasSubstr("fedprox"));
  EXPECT_THAT(shop.done({"list", "datasets"}).out, HasSubstr("synthetic  available\n"));
}

TEST(List, MethodsFitATerminalWithALineForEach) {
  const Workshop shop;
  const Words rows = split(shop.done({"list", "methods"}).out, '\n');
  for (const std::string& row : rows) {
    EXPECT_LE(row.size(), 80U) << row;
  }
  const Registry registry = builtin_registry();
  std::set<std::string> groups;
  for (const MethodInfo& info : registry.methods) {
    groups.insert(info.group);
    EXPECT_EQ(std::ranges::count_if(rows,
                                    [&](const std::string& row) {
                                      return row.starts_with("  " + info.name + " ") &&
                                             row.ends_with(info.summary);
                                    }),
              1)
        << info.name;
  }
  EXPECT_EQ(rows.size(), registry.methods.size() + groups.size() + 1);
}

TEST(List, NamesOtherPeopleUseAreListedAndDescribed) {
  const Workshop shop;
  EXPECT_THAT(shop.done({"list", "partitions"}).out,
              HasSubstr("dirichlet              another name for dirichlet_class\n"));
  EXPECT_THAT(shop.done({"list", "noises"}).out, HasSubstr("\nsymmetric  "));
  EXPECT_THAT(shop.done({"describe", "iid"}).out,
              AllOf(StartsWith("iid (partition)\n"), HasSubstr("\nanother name for iid_split\n")));
  const std::string symmetric = shop.done({"describe", "symmetric"}).out;
  EXPECT_THAT(symmetric,
              HasSubstr("another name for fedrn_labels with type = \"symmetric\" and low "
                        "= high = rate\n"));
  EXPECT_THAT(symmetric, HasSubstr("\n  rate "));
  EXPECT_THAT(shop.done({"inspect", "e.toml", "--set", "federation.partition=iid", "--set",
                         "noise=[{name=\"symmetric\",rate=0.5}]"})
                  .out,
              HasSubstr("(50.00%)"));
}

TEST(List, ASingularIsUnderstood) {
  const Workshop shop;
  expect_error(shop.call({"list", "method"}), 2,
               "list method: there is no such list\n  did you mean 'methods'?");
  expect_error(shop.call({"list", "zebras"}), 2,
               "known: methods, models, datasets, partitions, noises, distortions, engines");
}

TEST(Describe, SaysWhetherADataSetIsThere) {
  const Workshop shop;
  EXPECT_THAT(shop.done({"describe", "synthetic"}).out, HasSubstr("\navailable\n"));
  EXPECT_THAT(shop.done({"describe", "pathmnist"}).out,
              AllOf(HasSubstr("\nnot available; looked for data/pathmnist.npz, "),
                    HasSubstr("\nput pathmnist.npz from ")));
  EXPECT_EQ(shop.done({"describe", "npz", "--json"}).json().at("there"), false);
}

TEST(Describe, OfNothingIsShort) {
  const Workshop shop;
  const Ended ended = shop.call({"describe", "zebra_crossing"});
  expect_error(ended, 2, "nothing is called 'zebra_crossing'\n  'winnow list methods' shows ");
  EXPECT_LT(ended.err.size(), 250U);
  for (const char* table : {"method", "noise", "partition", "sweep"}) {
    EXPECT_THAT(shop.done({"describe", table}).out, HasSubstr("\n")) << table;
  }
}

TEST(Describe, ShowsParametersWithDefaultsAndRanges) {
  const Workshop shop;
  const Json method = shop.done({"describe", "fedprox", "--json"}).json();
  EXPECT_EQ(method.at("kind"), "method");
  EXPECT_EQ(method.at("parameters")[0].at("name"), "mu");
  EXPECT_EQ(method.at("parameters")[0].at("default"), 0.01);
  EXPECT_EQ(method.at("parameters")[0].at("range"), ">= 0");
  EXPECT_THAT(shop.done({"describe", "lenet5"}).out, HasSubstr("parameters"));
  EXPECT_THAT(shop.done({"describe", "train"}).out, HasSubstr("learning rate of the first"));
  EXPECT_THAT(shop.done({"describe", "shards", "--markdown"}).out,
              HasSubstr("| `shards_per_client` | `2` |"));
  expect_error(shop.call({"describe", "fedprx"}), 2,
               "nothing is called 'fedprx'\n  did you mean 'fedprox'?");
}

// Cells of a row of a Markdown table; an escaped '|' separates nothing.
std::size_t cells(const std::string& row) {
  std::size_t bars = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    bars += row[i] == '|' && (i == 0 || row[i - 1] != '\\') ? 1 : 0;
  }
  return bars - 1;
}

TEST(Describe, EveryRowOfAMarkdownTableHasFourCells) {
  const Workshop shop;
  Words names{"experiment", "data", "federation", "validation", "public", "model", "train"};
  for (const char* what : {"methods", "partitions", "noises"}) {
    for (const Json& entry : shop.done({"list", what, "--json"}).json()) {
      names.push_back(entry.at("name").get<std::string>());
    }
  }
  for (const std::string& name : names) {
    for (const std::string& row : split(shop.done({"describe", name, "--markdown"}).out, '\n')) {
      EXPECT_TRUE(row.empty() || cells(row) == 4) << name << ": " << row;
    }
  }
  EXPECT_THAT(shop.done({"describe", "clipfl", "--markdown"}).out,
              HasSubstr("| `fuse` | `\"kept\"` | kept \\| all | models averaged"));
}

TEST(Describe, ShowsWhatCrossesAndWhatItTells) {
  const Workshop shop;
  const std::string text = shop.done({"describe", "fedcorr", "--exchanges"}).out;
  EXPECT_THAT(text, HasSubstr("correct1_done"));
  EXPECT_THAT(text, HasSubstr("the share of its labels"));
  const Json exchanges = shop.done({"describe", "fedcorr", "--exchanges", "--json"}).json();
  const Json& correction = exchanges.at(1);
  EXPECT_EQ(correction.at("task"), "correct1");
  EXPECT_EQ(correction.at("task_bytes"), "4 + 4 P");
  EXPECT_EQ(correction.at("answers").at(0).at("name"), "muhat");
  EXPECT_EQ(correction.at("answers").at(0).at("range"), "0 to 1");
  EXPECT_EQ(shop.done({"describe", "fedcorr", "--json"}).json().at("exchanges"), exchanges);
  EXPECT_THAT(
      shop.done({"describe", "clc", "--exchanges", "--markdown"}).out,
      HasSubstr("| `confidence_done` | to server | mean C f64, 0 to 1; count C f64, at most "
                "its samples | 16 C |"));
  expect_error(shop.call({"describe", "lenet5", "--exchanges"}), 2,
               "--exchanges: 'lenet5' is a model, which sends no messages\n  give the name of a "
               "method: winnow "
               "list methods");
}

TEST(Inspect, ShowsPartitionAndNoiseBeforeTraining) {
  const Workshop shop;
  const Json json =
      shop.done({"inspect", "e.toml", "--json", "--set", "noise.0.rho=1", "--seed", "3"}).json();
  EXPECT_EQ(json.at("train"), 160);
  ASSERT_EQ(json.at("clients").size(), 4U);
  for (const Json& client : json.at("clients")) {
    EXPECT_EQ(client.at("samples"), 40);
    EXPECT_EQ(client.at("noisy"), true);
    EXPECT_GT(client.at("wrong_share"), 0.0);
  }
  const Ended text = shop.done({"inspect", "e.toml", "--set", "federation.clients=50"});
  EXPECT_THAT(text.out, HasSubstr("50 clients, 160 samples"));
  EXPECT_THAT(text.out, HasSubstr("10 more"));
  EXPECT_THAT(names_in(shop / "."), ElementsAre("e.toml")) << "it writes nothing unless asked to";
  shop.done({"inspect", "e.toml", "--out", "pictures"});
  EXPECT_THAT(names_in(shop / "pictures"), ElementsAre("distortions.png", "partition.svg"));
  expect_error(shop.call({"inspect", WINNOW_SOURCE_DIR "/experiments/quickstart.toml"}), 3,
               "it is a sweep\n  run it with: winnow sweep ");
}

// Photographs in two classes, whose labels are unchecked.
const Words kPhotos{"--set", "data.name=image-folder", "--set", "data.path=photos",
                    "--set", "data.image_size=16",     "--set", "rounds=2",
                    "--set", "federation.clients=2"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Inspect, DoesNotCountWhatNobodyKnows) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "built without OpenCV";
  }
  const Workshop shop;
  write_photos(shop / "photos", 2, 10);
  const Words own = with(kPhotos, {"--set", "noise=[]"});
  const Ended text = shop.done(with({"inspect", "e.toml"}, own));
  EXPECT_THAT(text.out,
              HasSubstr("which labels are wrong and which clients are noisy is not known"));
  EXPECT_THAT(text.out, Not(HasSubstr("wrong labels")));
  EXPECT_THAT(text.err, AllOf(HasSubstr("the test set is a fifth of "),
                              HasSubstr("photos, whose labels are unchecked")));
  EXPECT_EQ(lines(text.err), 1U);
  const Json json = shop.done(with({"inspect", "e.toml", "--json"}, own)).json();
  EXPECT_EQ(json.at("truth_unknown"), true);
  EXPECT_EQ(json.at("test_labels"), "unchecked");
  for (const char* key : {"noisy", "wrong_share", "distorted_share"}) {
    EXPECT_EQ(json.at("clients").at(0).at(key), Json(nullptr)) << key;
  }
  const Ended injected = shop.done(with({"inspect", "e.toml"}, kPhotos));
  EXPECT_THAT(injected.out, HasSubstr("\ninjected: "));
  EXPECT_EQ(shop.done(with({"inspect", "e.toml", "--json"}, kPhotos)).json().at("only_injected"),
            true);
}

TEST(Run, OnUncheckedLabelsSaysWhatIsNotKnown) {
  if (!can_decode_images()) {
    GTEST_SKIP() << "built without OpenCV";
  }
  const Workshop shop;
  write_photos(shop / "photos", 2, 10);
  const Ended ended = shop.done(with({"run", "e.toml", "--set", "noise=[]"}, kPhotos));
  EXPECT_THAT(ended.err, HasSubstr("\nthe test set is a fifth of "));
  const Json summary = read_summary(shop / "runs/small");
  EXPECT_EQ(summary.at("truth_unknown"), true);
  EXPECT_EQ(summary.at("test_labels"), "unchecked");
  EXPECT_EQ(summary.at("noise"), Json::parse(R"({"noisy_clients": null, "samples": 16,
      "wrong_labels": null, "distorted": null})"));
  shop.done(with({"run", "e.toml", "--quiet", "--out", "noisy"}, kPhotos));
  EXPECT_EQ(read_summary(shop / "noisy").at("noise").at("only_injected"), true);
}

// Four turns and one round more.
const Words kFedCorr{"--set", "method.name=fedcorr",      "--set", "method.iterations=1",
                     "--set", "method.finetune_rounds=0", "--set", "method.usual_rounds=1"};
constexpr const char* kOtherRounds =
    "fedcorr plays 5 rounds (its own schedule: iterations 1 x 4 turns + finetune_rounds 0 + "
    "usual_rounds 1); rounds = 4 is not used. Set these under [method] to change it\n";

TEST(Run, SaysThatTheMethodHasItsOwnNumberOfRounds) {
  const Workshop shop;
  const Ended run = shop.done(with({"run", "e.toml"}, kFedCorr));
  EXPECT_THAT(run.err, HasSubstr(kOtherRounds));
  const Json summary = read_summary(shop / "runs/small");
  EXPECT_EQ(summary.at("rounds"), 5);
  EXPECT_EQ(summary.at("planned_rounds"), 5);
  EXPECT_EQ(shop.done(with({"run", "e.toml", "--quiet", "--out", "quiet"}, kFedCorr)).err, "");
  EXPECT_THAT(shop.done(with({"inspect", "e.toml"}, kFedCorr)).err, HasSubstr(kOtherRounds));
  EXPECT_EQ(shop.done({"inspect", "e.toml"}).err, "");
  EXPECT_THAT(
      shop.done(with({"run", "e.toml", "--out", "same", "--set", "rounds=5"}, kFedCorr)).err,
      Not(HasSubstr("not used")));
  EXPECT_THAT(shop.done({"run", "e.toml", "--out", "clc", "--set", "method.name=clc", "--set",
                         "method.start_rounds=1", "--set", "method.holdout_rounds=0", "--set",
                         "method.correction_rounds=0"})
                  .err,
              HasSubstr("clc plays 1 round (its own schedule: start_rounds 1 + holdout_rounds 0 + "
                        "correction_rounds 0); rounds = 4 is not used."));
}

TEST(Run, WithoutARoundsKeyThereIsNothingToSay) {
  const Workshop shop;
  std::string text = small_toml();
  text.erase(text.find("rounds = 4\n"), std::string("rounds = 4\n").size());
  write_file_whole(shop / "e.toml", text);
  EXPECT_THAT(shop.done(with({"run", "e.toml"}, kFedCorr)).err, Not(HasSubstr("not used")));
}

TEST(Sweep, SaysOnceThatAMethodHasItsOwnNumberOfRounds) {
  const Workshop shop;
  std::string text = small_toml();
  text += R"([grid]
seed = [1, 2]
[[row]]
name = "plain"
[[row]]
name = "corrected"
set = { "method.name" = "fedcorr", "method.iterations" = 1, "method.finetune_rounds" = 0, "method.usual_rounds" = 1 }
)";
  write_file_whole(shop / "e.toml", text);
  const std::string err = shop.done({"sweep", "e.toml"}).err;
  EXPECT_THAT(err, HasSubstr(kOtherRounds));
  EXPECT_EQ(err.find("not used"), err.rfind("not used")) << "once for both seeds";
  EXPECT_EQ(shop.done({"sweep", "e.toml", "--quiet", "--out", "quiet"}).err, "");
}

TEST(Run, SaysWhichKeysOfTrainingHaveNoEffect) {
  const Workshop shop;
  const Words useless{"--set", "train.optimizer=adam", "--set", "train.momentum=0.9"};
  const std::string notice =
      "train.momentum = 0.9 has no effect with train.optimizer = \"adam\"; only \"sgd\" uses it\n";
  EXPECT_THAT(shop.done(with({"run", "e.toml"}, useless)).err, HasSubstr(notice));
  EXPECT_EQ(shop.done(with({"inspect", "e.toml"}, useless)).err, notice);
  EXPECT_THAT(shop.done({"run", "runs/small/experiment.toml", "--out", "again"}).err,
              Not(HasSubstr("no effect")));
}

TEST(Sweep, SaysOnceInHowManyRunsAKeyOfTrainingHasNoEffect) {
  const Workshop shop(R"([grid]
seed = [1, 2]
[[row]]
name = "adam"
set = { "train.optimizer" = "adam", "train.momentum" = 0.9, "train.lr_min" = 0.001 }
[[row]]
name = "sgd"
set = { "train.momentum" = 0.9, "train.lr_min" = 0.001 }
)");
  EXPECT_THAT(
      shop.done({"sweep", "e.toml"}).err,
      StartsWith("train.lr_min = 0.001 has no effect with train.lr_schedule = \"exponential\"; "
                 "only \"cosine\" uses it\n"
                 "train.momentum = 0.9 has no effect with train.optimizer = \"adam\"; only "
                 "\"sgd\" uses it (in 2 of 4 runs)\n"));
}

TEST(Run, EveryColumnOfItsMetricsIsExplained) {
  const std::string page = read_file(WINNOW_SOURCE_DIR "/docs/experiment.md");
  const std::string table = page.substr(page.find("### Columns of metrics.csv"));
  for (const std::string& column : split(trim(metrics_csv({})), ',')) {
    EXPECT_THAT(table, ContainsRegex("\n\\|[^|]*`" + column + "`[^|]*\\|")) << column;
  }
}

TEST(Run, ARecallOfNothingIsADash) {
  const Workshop shop;
  const Ended run = shop.done(with({"run", "e.toml", "--set", "noise=[]"}, kFedCorr));
  EXPECT_THAT(run.err, HasSubstr(" recall -"));
  const Json detection = read_summary(shop / "runs/small").at("detection");
  EXPECT_EQ(detection.at("flag_recall"), Json(nullptr));
  shop.done({"table", "runs/small", "--metric", "last,flag_precision,flag_recall"});
  shop.done({"report", "runs/small", "--out", "page.html"});
}

TEST(Output, HasColoursOnATerminalOnly) {
  const Workshop shop;
  const Words words{"list", "datasets"};
  EXPECT_THAT(on_terminal(words, shop.place({"TERM=xterm"})), HasSubstr("\033["));
  EXPECT_THAT(on_terminal(words, shop.place({"TERM=xterm", "NO_COLOR=1"})), Not(HasSubstr("\033")));
  EXPECT_THAT(shop.done(words).out, Not(HasSubstr("\033")));
  const Ended run = shop.done({"run", "e.toml"});
  EXPECT_THAT(run.out + run.err, Not(HasSubstr("\033")));
  EXPECT_THAT(run.err, Not(HasSubstr("\r")));
}

TEST(Output, ARunOnATerminalShowsABar) {
  const Workshop shop;
  const std::string shown = on_terminal({"run", "e.toml"}, shop.place({"TERM=xterm"}));
  EXPECT_THAT(shown, HasSubstr("[####################] round 4/4"));
}

TEST(Output, ThatCannotBeWrittenIsAnError) {
  if (!fs::exists("/dev/full")) {
    GTEST_SKIP() << "no /dev/full here";
  }
  const Workshop shop;
  Place place = shop.place();
  place.output = "/dev/full";
  const Ended ended = winnow_program({"list", "methods"}, place);
  EXPECT_EQ(ended.code, 5);
  EXPECT_EQ(ended.err, "winnow: cannot write to standard output: No space left on device\n");
}

TEST(Output, MessagesThatNobodyReceivesDoNotStopARun) {
  const Workshop shop;
  shop.done({"run", "e.toml", "--out", "heard", "--quiet"});
  for (const std::string errors : {"/dev/full", "-"}) {
    if (errors != "-" && !fs::exists(errors)) {
      continue;
    }
    Place place = shop.place();
    place.errors = errors;
    const std::string out = errors == "-" ? "closed" : "full";
    EXPECT_EQ(winnow_program({"run", "e.toml", "--out", out}, place).code, 0) << errors;
    EXPECT_EQ(hashes(read_history(shop / out)), hashes(read_history(shop / "heard")));
    EXPECT_EQ(winnow_program({"run", "e.toml", "--out", out}, place).code, 5) << errors;
  }
}

}  // namespace winnow::commands_test
