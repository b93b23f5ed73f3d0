// Run directories and experiments that somebody else has prepared.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>

#include "run/small_run.h"
#include "testing/script_files.h"
#include "winnow/audit/run_evidence.h"
#include "winnow/base/arithmetic.h"
#include "winnow/judge/judge.h"
#include "winnow/run/directory_lock.h"
#include "winnow/run/runner.h"
#include "winnow/run/tensorboard.h"
#include "winnow/run/verify.h"
#include "winnow/sweep/find_runs.h"
#include "winnow/sweep/report_data.h"
#include "winnow/sweep/sweep.h"

namespace winnow::hostile_run_test {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

RunOutcome start(const Experiment& experiment, const fs::path& directory,
                 const Registry& registry = methods()) {
  RunObserver silence;
  return start_run(experiment, registry, on_cpu(), directory, nullptr, silence);
}

RunOutcome resume(const fs::path& directory, bool trust_model = false) {
  RunObserver silence;
  Runtime runtime = on_cpu();
  runtime.trust_model = trust_model;
  return resume_run(directory, methods(), runtime, nullptr, silence);
}

Verification verify(const fs::path& directory, bool trust_model = false) {
  Runtime runtime = on_cpu();
  runtime.trust_model = trust_model;
  return verify_run(directory, methods(), runtime, 0, nullptr, [](std::int64_t, std::int64_t) {});
}

Json report(const fs::path& directory) {
  return ReportReader({directory.string()}).read();
}

std::string deep_list() {
  return std::string(200'000, '[');
}

TEST(HostileRun, NothingIsWrittenThroughALink) {
  const TestFolder folder;
  for (const char* name :
       {"events.jsonl", kTensorBoardFile, "metrics.csv", "findings.json", "ledger.jsonl",
        "partition.json", "model.safetensors", "model.pt", "summary.json", "lock"}) {
    const fs::path run = folder / "run";
    fs::remove_all(run);
    fs::create_directories(run);
    write_file_whole(run / "experiment.toml", small_toml());
    write_file_whole(folder / "victim", "precious");
    fs::create_symlink(folder / "victim", run / name);
    EXPECT_THAT(error_text([&] { resume(run); }),
                StartsWith((run / name).string() +
                           " is a symbolic link: nothing is written through it | "));
    EXPECT_EQ(read_file(folder / "victim"), "precious") << name;
    fs::remove(folder / "victim");
    EXPECT_THAT(error_text([&] { resume(run); }), HasSubstr("is a symbolic link"));
    EXPECT_FALSE(fs::exists(folder / "victim")) << "nothing is made where it pointed, either";
  }
}

TEST(HostileRun, ACheckpointFolderElsewhereIsLeftAlone) {
  const TestFolder folder;
  fs::create_directories(folder / "run");
  fs::create_directories(folder / "other");
  const fs::path theirs = temporary_beside(folder / "other/round-000000001.safetensors");
  write_file_whole(theirs, "precious");
  write_file_whole(folder / "run/experiment.toml", small_toml());
  fs::create_directory_symlink(folder / "other", folder / "run/checkpoint");
  EXPECT_THAT(error_text([&] { resume(folder / "run"); }),
              HasSubstr("run/checkpoint is a symbolic link"));
  EXPECT_EQ(read_file(theirs), "precious");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "other"), {}), 1);
}

TEST(HostileRun, ADirectoryThatIsMovedAwayStopsTheRunAndMakesNoNewOne) {
  const TestFolder folder;
  for (const bool moved : {true, false}) {
    std::atomic<int> trainings{0};
    const Registry registry = methods([&](std::int64_t, std::int64_t) {
      if (++trainings == 4) {
        if (moved) {
          fs::rename(folder / "run", folder / "elsewhere");
        } else {
          fs::remove_all(folder / "run");
        }
      }
    });
    EXPECT_EQ(
        error_text([&] { start(small({"method.name=remembering"}), folder / "run", registry); }),
        (folder / "run").string() +
            " was removed, moved or replaced while the run was going on | if it was moved, "
            "continue it there with 'winnow resume'");
    EXPECT_FALSE(fs::exists(folder / "run"));
  }
  EXPECT_EQ(resume(folder / "elsewhere").summary.at("model_hash"),
            undisturbed_hashes(small({"method.name=remembering"})).back());
}

TEST(HostileRun, ATorchScriptFileIsExecutedOnlyWhenTheUserSaysSo) {
  const TestFolder folder;
  const NetShape shape{4, 1, 28, 28};
  const fs::path file = write_script(folder / "net.pt", kLinearText, linear_state(shape));
  start(small({"model.name=torchscript", "model.path=" + file.string()}), folder / "run");
  const std::string refusal = "this run executes the TorchScript file " + file.string() +
                              " | add --trust-model if you trust it: such a file is a program";
  EXPECT_EQ(error_text([&] { verify(folder / "run"); }), refusal);
  EXPECT_EQ(verify(folder / "run", true).compared, 4);
  EXPECT_EQ(error_text([&] { resume(folder / "run"); }), "no error") << "it is finished";
  fs::remove(folder / "run/summary.json");
  EXPECT_EQ(error_text([&] { resume(folder / "run"); }), refusal);
  EXPECT_EQ(error_text([&] { resume(folder / "run", true); }), "no error");
  EXPECT_EQ(error_text([&] { report(folder / "run"); }), "no error");
}

TEST(HostileRun, AReportOfDeepJsonNamesTheFile) {
  const TestFolder folder;
  start(small(), folder / "run");
  for (const char* name : {"summary.json", "findings.json", "partition.json"}) {
    const std::string kept = read_file(folder / "run" / name);
    write_file_whole(folder / "run" / name, R"({"a":)" + deep_list());
    EXPECT_THAT(error_text([&] { report(folder / "run"); }),
                StartsWith((folder / "run" / name).string() +
                           " is damaged: it is nested deeper than 64 levels"));
    write_file_whole(folder / "run" / name, kept);
  }
  const fs::path events = folder / "run/events.jsonl";
  write_file_whole(events, R"({"event":"started","rounds":)" + deep_list() + "\n");
  EXPECT_EQ(error_text([&] { report(folder / "run"); }), events.string() + ":1: not an event");
}

TEST(HostileRun, AnAuditOfDeepJsonNamesTheFile) {
  const TestFolder folder;
  start(small(), folder / "run");
  const auto expect_damaged = [&](const char* name, const std::string& content) {
    const fs::path file = folder / "run" / name;
    const std::string kept = read_file(file);
    write_file_whole(file, content);
    EXPECT_THAT(error_text([&] { read_run_evidence(folder / "run"); }),
                StartsWith(file.string() + " is damaged: it is nested deeper than 64 levels"))
        << content.substr(0, 40);
    write_file_whole(file, kept);
  };
  expect_damaged("summary.json", R"({"method":)" + deep_list());
  for (const char* key : {"flagged", "scores", "noise_levels"}) {
    expect_damaged("findings.json", fmt::format(R"({{"{}":)", key) + deep_list());
  }
  for (const char* key : {"clients", "truth_unknown"}) {
    expect_damaged("partition.json", fmt::format(R"({{"{}":)", key) + deep_list());
  }
  expect_damaged("partition.json", R"({"clients":[{"client":0,"samples":)" + deep_list());
  write_file_whole(folder / "run/findings.json", "[]");
  EXPECT_EQ(error_text([&] { read_run_evidence(folder / "run"); }),
            (folder / "run/findings.json").string() + ": not a JSON object");
}

TEST(HostileRun, AnAuditNamesAMethodThatIsNoText) {
  const TestFolder folder;
  start(small(), folder / "run");
  Json summary = Json::parse(read_file(folder / "run/summary.json"));
  summary["method"] = {1, 2};
  write_file_whole(folder / "run/summary.json", summary.dump());
  EXPECT_EQ(error_text([&] { read_run_evidence(folder / "run"); }),
            (folder / "run/summary.json").string() +
                " is damaged: method is not a text | delete it and resume the run");
}

TEST(HostileRun, ValuesOfTheWrongTypeAreNamedOrLeftOut) {
  const TestFolder folder;
  start(small(), folder / "run");
  const fs::path events = folder / "run/events.jsonl";
  const std::string kept = read_file(events);
  write_file_whole(events, R"({"event":"started","rounds":[],"uses_ground_truth":"yes"})"
                           "\n");
  EXPECT_EQ(report(folder / "run").at("runs").at(0).at("uses_ground_truth"), false);
  for (const char* line : {R"({"event":"round","round":"1"})", R"({"event":7})", "7", "{"}) {
    write_file_whole(events, std::string(line) + "\n");
    const std::string text = error_text([&] { report(folder / "run"); });
    EXPECT_THAT(text, AnyOf(events.string() + ":1: not an event", "no error",
                            StartsWith(events.string() + " is damaged: round = ")));
  }
  std::string large = kept;
  const std::string counted = R"("participations":)";
  large.replace(large.rfind(counted), counted.size(), R"("participations":1e308,"x":)");
  write_file_whole(events, large);
  EXPECT_THAT(error_text([&] { report(folder / "run"); }),
              StartsWith(events.string() + " is damaged: participations = "));
  EXPECT_THAT(error_text([&] { read_history(folder / "run"); }), EndsWith(": not an event"));
  fs::remove(folder / "run/summary.json");
  std::string changed = kept;
  const std::string from = R"("seconds":)";
  changed.replace(changed.rfind(from), from.size(), R"("xeconds":)");
  write_file_whole(events, changed);
  // The checkpoint has a hash of the log that it was made after.
  EXPECT_THAT(error_text([&] { resume(folder / "run"); }),
              StartsWith(events.string() + " does not hold the rounds of the checkpoint"));
}

TEST(HostileRun, WhatARunWasComputedWithIsTextOrNoEvent) {
  const TestFolder folder;
  const fs::path events = folder / "events.jsonl";
  const auto read = [&](const std::string& line) {
    write_file_whole(events, line + "\n");
    return read_computed_with(folder.path());
  };
  for (const char* line : {R"({"arithmetic":7})", R"({"arithmetic":"avx2","fingerprint":[]})"}) {
    EXPECT_EQ(error_text([&] { read(line); }), events.string() + ":1: not an event");
  }
  EXPECT_EQ(read(R"({"arithmetic":)" + deep_list()), std::nullopt);
  EXPECT_EQ(read(R"({"arithmetic":"\u001b[2J"})")->arithmetic, "\\x1b[2J");
}

TEST(HostileRun, AnotherArithmeticIsRefusedWithWhatResumeAndVerifyCanDo) {
  const TestFolder folder;
  write_file_whole(folder / "events.jsonl", R"({"arithmetic":"avx1024"})");
  EXPECT_EQ(error_text([&] { check_arithmetic(folder.path()); }),
            fmt::format("{} was computed with the arithmetic avx1024, not {} | use --arithmetic "
                        "avx1024, or start a new run with 'winnow run'",
                        folder.path().string(), current_arithmetic()));
}

TEST(HostileRun, APipeIsNotWaitedFor) {
  const TestFolder folder;
  start(small(), folder / "run");
  for (const char* name : {"events.jsonl", "summary.json", "findings.json", "partition.json",
                           "experiment.toml", "lock"}) {
    const std::string kept = read_file(folder / "run" / name);
    fs::remove(folder / "run" / name);
    ASSERT_EQ(::mkfifo((folder / "run" / name).c_str(), 0600), 0);
    EXPECT_THAT(error_text([&] { report(folder / "run"); }),
                HasSubstr(name == std::string("lock") ? "no error" : "it is not a regular file"))
        << name;
    fs::remove(folder / "run" / name);
    write_file_whole(folder / "run" / name, kept);
  }
}

TEST(HostileSweep, AnIndexLeadsNowhereElse) {
  const TestFolder folder;
  for (const char* id : {"../../secret", "/etc", "..", ".hidden", "a\\u0000b"}) {
    write_file_whole(
        folder / "sweep.json",
        fmt::format(R"({{"runs":[{{"id":"{}","row":"","column":"","seed":1}}]}})", id));
    EXPECT_THAT(error_text([&] { find_runs({folder.path().string()}); }),
                HasSubstr("sweep.json is damaged: a run is called \""));
  }
}

TEST(HostileSweep, NamesOfRowsThatWouldHideOrCommandAreRefused) {
  const TestFolder folder;
  for (const auto& [axis, name] :
       {std::pair{"row", "../x"}, {"column", ".x"}, {"row", "a\\u001b"}, {"column", "\\u0000"}}) {
    write_file_whole(folder / "e.toml", std::string(small_toml()) + "[[" + axis + "]]\nname = \"" +
                                            name + "\"\nset = { seed = 2 }\n");
    EXPECT_THAT(error_text([&] { load_sweep(folder / "e.toml", {}, methods()); }),
                AllOf(HasSubstr(std::string("[[") + axis + "]] name = \"" + name + "\": expected"),
                      HasSubstr("no '.' at its beginning and no control characters")));
  }
}

TEST(HostileExperiment, ANameIsTheNameOfOneFolder) {
  for (const char* name :
       {"/tmp/x", "../../x", "a/b", "..", ".hidden", "a\\u0000b", "a\\u001b[2J"}) {
    const std::string text = error_text([&] {
      parse_experiment(parse_toml(fmt::format("name = \"{}\"", name), "e.toml"), methods());
    });
    EXPECT_THAT(text,
                StartsWith(fmt::format("name = \"{}\": expected the name of a folder", name)));
  }
}

TEST(HostileExperiment, DeepKeysAndValuesAreRefused) {
  const auto fault = [](const std::string& text) {
    return error_text([&] { parse_toml(text, "e.toml"); });
  };
  const auto repeated = [](const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) {
      all += text;
    }
    return all;
  };
  const std::string parts = "e.toml:1: a key has more than 32 parts";
  const std::string levels = "e.toml:1: values are nested deeper than 32 levels";
  EXPECT_EQ(fault(repeated("a.", 31) + "a = 1"), "no error");
  EXPECT_EQ(fault(repeated("a.", 32) + "a = 1"), parts);
  EXPECT_EQ(fault(repeated("a.", 50'000) + "a = 1"), parts);
  EXPECT_EQ(fault("[" + repeated("a.", 50'000) + "a]"), parts);
  EXPECT_EQ(fault("[[" + repeated("a . ", 50'000) + "a]]"), parts);
  EXPECT_EQ(fault("x = { " + repeated("\"a\".", 50'000) + "a = 1 }"), parts);
  EXPECT_EQ(fault("x = [ {" + repeated("'a'.", 50'000) + "a = 1 } ]"), parts);
  EXPECT_EQ(fault("x = " + repeated("[", 32) + repeated("]", 32)), "no error");
  EXPECT_EQ(fault("x = " + repeated("[", 33) + repeated("]", 33)), levels);
  EXPECT_EQ(fault("x = " + repeated("{ a = ", 50'000)), levels);
  EXPECT_NE(fault("x = '\n" + repeated("a.", 50'000) + "a = 1"), "no error");
}

TEST(HostileExperiment, DotsAndBracketsInTextsAndCommentsAreNoDepth) {
  const std::string many(100, '.');
  const std::string open(100, '[');
  for (const std::string& text :
       {"x = \"" + many + open + "\"", "x = '" + many + open + "'",
        "x = \"\"\"\n" + many + open + "\"\n\\\"\"\"\"\"\ny = 1", "x = '''\n" + many + open + "'''",
        "# " + many + open, "x = \"\\\"" + many + "\"",
        "x = [" + std::string("1.5, ") + "2.5,\n3.5]", "\"" + many + "\" = 1",
        "x = ''\ny = \"\"\nz = '" + many + "'"}) {
    EXPECT_EQ(error_text([&] { parse_toml(text, "e.toml"); }), "no error") << text;
  }
  Json numbers = Json::array();
  for (int i = 0; i < 200; ++i) {
    numbers.push_back(0.5);
  }
  EXPECT_EQ(error_text([&] { parse_toml("x = " + numbers.dump(), "e.toml"); }), "no error");
}

TEST(HostileExperiment, AKeyOfManyPartsInARowIsRefused) {
  Json tree = Json::object();
  std::string path = "a";
  for (int i = 0; i < 50'000; ++i) {
    path += ".a";
  }
  EXPECT_THAT(error_text([&] { set_by_path(tree, path, 1); }),
              EndsWith(": a key has more than 32 parts"));
}

// A search of all keys for every key took minutes here.
TEST(HostileExperiment, ManyKeysTakeLittleTimeAndLargeFilesAreRefused) {
  const TestFolder folder;
  std::string text;
  for (int i = 0; text.size() < kLargestToml - 20; ++i) {
    text += fmt::format("k{}=1\n", i);
  }
  write_file_whole(folder / "e.toml", text);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_GT(read_toml(folder / "e.toml").size(), 80'000U);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
  write_file_whole(folder / "e.toml", text + std::string(100, '\n'));
  EXPECT_THAT(error_text([&] { load_experiment(folder / "e.toml", {}, methods()); }),
              EndsWith("bytes, more than the 1048576 allowed"));
}

TEST(HostileExperiment, AFolderWhoseNameIsNotUtf8IsNamed) {
  const TestFolder folder;
  const fs::path home = folder / "caf\xe9";
  fs::create_directories(home);
  write_file_whole(home / "e.toml", "[data]\nname = \"npz\"\npath = \"x.npz\"\n");
  write_file_whole(home / "x.npz", "");
  const auto load = [&] { load_experiment(home / "e.toml", {}, methods()); };
  EXPECT_THAT(error_text(load), HasSubstr("has a name that is not UTF-8"));
  EXPECT_EQ(error_kind(load), ErrorKind::experiment);
}

TEST(HostileData, ManyClassesMakeNoTableOfAllPairs) {
  World world{tiny_data(8, 4), {}, Ledger(1, 8, 2)};
  world.data.classes = kMostClasses;
  world.clients = deal(world.data, {4, 4});
  const Json json = judge_clients(world, {}, {}, {});
  EXPECT_FALSE(json.contains("confusion"));
  world.data.classes = kMostConfusionClasses;
  EXPECT_TRUE(judge_clients(world, {}, {}, {}).contains("confusion"));
}

TEST(DirectoryLocks, KeepASecondOneOut) {
  const TestFolder folder;
  {
    const DirectoryLock lock(folder.path(), "");
    EXPECT_TRUE(DirectoryLock::is_held(folder.path()));
    EXPECT_EQ(error_text([&] { DirectoryLock(folder.path(), "somebody is at work"); }),
              "somebody is at work");
  }
  EXPECT_FALSE(DirectoryLock::is_held(folder.path()));
  EXPECT_EQ(error_text([&] { DirectoryLock(folder.path(), ""); }), "no error");
}

}  // namespace winnow::hostile_run_test
