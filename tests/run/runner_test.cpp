#include "winnow/run/runner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <fstream>

#include "run/checkpoint_pieces.h"
#include "run/small_run.h"
#include "winnow/base/sha256.h"
#include "winnow/judge/census.h"
#include "winnow/model/safetensors.h"
#include "winnow/noise/ledger.h"

namespace winnow::runner_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

RunOutcome start(const Experiment& experiment, const fs::path& directory,
                 const Registry& registry = methods(), const std::atomic<bool>* stop = nullptr) {
  RunObserver silence;
  return start_run(experiment, registry, on_cpu(), directory, stop, silence);
}

RunOutcome resume(const fs::path& directory, const Registry& registry = methods()) {
  RunObserver silence;
  return resume_run(directory, registry, on_cpu(), nullptr, silence);
}

// Starts a run that is asked to stop in the given training (two to a round).
RunOutcome start_and_stop(const Experiment& experiment, const fs::path& directory, int training) {
  std::atomic<bool> stop{false};
  std::atomic<int> trainings{0};
  return start(experiment, directory, methods([&](std::int64_t, std::int64_t) {
                 if (++trainings == training) {
                   stop = true;
                 }
               }),
               &stop);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> events_of(const fs::path& directory) {
  std::vector<std::string> events;
  for (const std::string& line : split(read_file(directory / "events.jsonl"), '\n')) {
    if (!line.empty()) {
      events.push_back(Json::parse(line).at("event").get<std::string>());
    }
  }
  return events;
}

void append(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

Experiment remembering(std::vector<std::string> more = {}) {
  more.emplace_back("method.name=remembering");
  return small(more);
}

TEST(Runner, AFinishedRunLeavesItsDirectoryComplete) {
  const TestFolder folder;
  const Experiment experiment = small();
  const fs::path directory = folder / "deep/er/run";
  const RunOutcome outcome = start(experiment, directory);
  EXPECT_FALSE(outcome.interrupted);
  EXPECT_EQ(outcome.rounds_done, 4);
  EXPECT_THAT(names_in(directory),
              ElementsAre("checkpoint", "events.jsonl", "events.out.tfevents.0.winnow",
                          "experiment.toml", "findings.json", "ledger.jsonl", "lock", "metrics.csv",
                          "model.pt", "model.safetensors", "partition.json", "summary.json"));
  EXPECT_THAT(names_in(directory / "checkpoint"), ElementsAre("round-000000004.safetensors"));
  EXPECT_THAT(names_in(directory.parent_path()), ElementsAre("run")) << "no temporary folder";
  EXPECT_EQ(read_run_experiment(directory, methods()).hash(), experiment.hash());
  EXPECT_EQ(split(read_file(directory / "metrics.csv"), '\n').size(), 6U);
  EXPECT_THAT(events_of(directory),
              ElementsAre("started", "round", "round", "round", "round", "finished"));
  EXPECT_EQ(hashes(read_history(directory)), undisturbed_hashes(experiment));
  EXPECT_EQ(Ledger::read(directory / "ledger.jsonl").hash(), outcome.summary.at("ledger_hash"));
}

TEST(Runner, TheSummaryHoldsWhatTheDesignPromises) {
  const TestFolder folder;
  const Json summary = start(small({"eval_every=3"}), folder / "run").summary;
  for (const char* key :
       {"name", "method", "seed", "rounds", "best", "last", "last10", "participations", "bytes_up",
        "bytes_down", "client_steps", "train_seconds", "wall_seconds", "model_hash", "version",
        "libtorch", "device"}) {
    EXPECT_TRUE(summary.contains(key)) << key;
  }
  EXPECT_EQ(summary.at("participations"), 8);
  EXPECT_EQ(summary.at("client_steps"), 32);
  EXPECT_EQ(summary.at("forward_passes"), 320);
  EXPECT_EQ(summary.at("backward_passes"), 320);
  EXPECT_GE(summary.at("best"), summary.at("last10"));
  EXPECT_EQ(read_summary(folder / "run").dump(), summary.dump());
  Session session(small(), methods(), on_cpu(), nullptr);
  const State model = load_state(folder / "run/model.safetensors", session.global().layout);
  EXPECT_EQ(hash(model), summary.at("model_hash"));
}

TEST(Runner, MeasuresMeansOverTheClasses) {
  const TestFolder folder;
  const Json summary = start(small(), folder / "run").summary;
  const RoundRecord last = read_history(folder / "run").back();
  for (const auto& [name, value] : {std::pair("macro_precision", last.macro_precision),
                                    {"macro_recall", last.macro_recall},
                                    {"macro_f1", last.macro_f1}}) {
    ASSERT_TRUE(value.has_value()) << name;
    EXPECT_GT(*value, 0.0) << name;
    EXPECT_LE(*value, 1.0) << name;
    EXPECT_GT(summary.at(name), 0.0) << name;
  }
}

TEST(Runner, MeasuresTop5OfMoreThanFiveClasses) {
  const TestFolder folder;
  const Json few = start(small({"data.classes=5"}), folder / "few").summary;
  EXPECT_FALSE(few.contains("top5"));
  EXPECT_EQ(read_history(folder / "few").back().top5, std::nullopt);
  const Json many = start(small({"data.classes=6"}), folder / "many").summary;
  EXPECT_GT(many.at("top5"), many.at("best")) << "five of six are hard to miss";
  const History history = read_history(folder / "many");
  EXPECT_EQ(accuracies(history).top5, many.at("top5").get<double>());
  EXPECT_GE(*history.back().top5, *history.back().accuracy);
}

TEST(Runner, RefusesADirectoryThatExists) {
  const TestFolder folder;
  fs::create_directories(folder / "run");
  EXPECT_EQ(error_text([&] { start(small(), folder / "run"); }),
            (folder / "run").string() +
                " exists already and is not a run directory | choose another --out");
  EXPECT_TRUE(fs::is_empty(folder / "run"));
  write_file_whole(folder / "file", "x");
  EXPECT_EQ(error_kind([&] { start(small(), folder / "file"); }), ErrorKind::run);
  EXPECT_THAT(error_text([&] { start(small(), folder / "file/run"); }),
              HasSubstr("cannot create " + (folder / "file/run").string()));
}

TEST(Runner, ADirectoryMayEndInASlash) {
  const TestFolder folder;
  EXPECT_EQ(start(small({"rounds=1"}), folder / "run/").rounds_done, 1);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("run"));
  EXPECT_TRUE(fs::exists(folder / "run/summary.json"));
}

TEST(Runner, NothingIsWrittenForABadExperiment) {
  const TestFolder folder;
  EXPECT_EQ(error_kind([&] {
              start(small({"data.name=cifar10", "data.path=/nowhere"}), folder / "run");
            }),
            ErrorKind::data);
  EXPECT_EQ(error_kind([&] { start(small({"federation.clients=1000"}), folder / "run"); }),
            ErrorKind::experiment);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Runner, AStoppedRunContinuesInTheSameBits) {
  const TestFolder folder;
  const Experiment experiment = remembering();
  const std::vector<std::string> expected = undisturbed_hashes(experiment);
  for (const int training : {1, 3, 6, 8}) {
    const fs::path directory = folder / std::to_string(training);
    const RunOutcome stopped = start_and_stop(experiment, directory, training);
    EXPECT_TRUE(stopped.interrupted);
    EXPECT_TRUE(stopped.summary.is_null());
    EXPECT_EQ(stopped.rounds_done, (training - 1) / 2);
    EXPECT_FALSE(fs::exists(directory / "summary.json"));
    const RunOutcome finished = resume(directory);
    EXPECT_FALSE(finished.interrupted);
    EXPECT_EQ(finished.rounds_done, 4);
    EXPECT_EQ(finished.summary.at("model_hash"), expected.back());
    EXPECT_EQ(finished.summary.at("participations"), 8);
    EXPECT_EQ(hashes(read_history(directory)), expected) << "stopped in training " << training;
    EXPECT_EQ(split(read_file(directory / "metrics.csv"), '\n').size(), 6U);
  }
}

TEST(Runner, ResumingAFinishedRunReturnsItsSummaryAndChangesNothing) {
  const TestFolder folder;
  const Json summary = start(small(), folder / "run").summary;
  const std::string events = read_file(folder / "run/events.jsonl");
  const auto changed = fs::last_write_time(folder / "run/summary.json");
  const RunOutcome again = resume(folder / "run");
  EXPECT_EQ(again.summary.dump(), summary.dump());
  EXPECT_EQ(again.rounds_done, 4);
  EXPECT_FALSE(again.interrupted);
  EXPECT_EQ(read_file(folder / "run/events.jsonl"), events);
  EXPECT_EQ(fs::last_write_time(folder / "run/summary.json"), changed);
}

TEST(Runner, WithoutACheckpointItStartsOverWithTheSameResult) {
  const TestFolder folder;
  const Experiment experiment = remembering();
  start_and_stop(experiment, folder / "run", 6);
  fs::remove_all(folder / "run/checkpoint");
  EXPECT_EQ(resume(folder / "run").summary.at("model_hash"), undisturbed_hashes(experiment).back());
  EXPECT_THAT(events_of(folder / "run"),
              ElementsAre("started", "round", "round", "round", "round", "finished"));
  // Killed right after the directory appeared.
  fs::create_directories(folder / "bare");
  fs::copy_file(folder / "run/experiment.toml", folder / "bare/experiment.toml");
  EXPECT_EQ(resume(folder / "bare").summary.at("model_hash"),
            read_summary(folder / "run").at("model_hash"));
}

TEST(Runner, EventsAfterTheCheckpointAreCutAway) {
  const TestFolder folder;
  const Experiment experiment = remembering();
  start_and_stop(experiment, folder / "run", 6);
  // As if it had been killed later: more rounds were logged than saved, the last one only half.
  append(folder / "run/events.jsonl", R"({"event":"round","round":3,"hash":"of a lost round"})");
  append(folder / "run/events.jsonl", "\n{\"event\":\"rou");
  resume(folder / "run");
  EXPECT_EQ(hashes(read_history(folder / "run")), undisturbed_hashes(experiment));
  EXPECT_THAT(events_of(folder / "run"),
              ElementsAre("started", "round", "round", "resumed", "round", "round", "finished"));
}

TEST(Runner, AHalfWrittenLastLineIsNotRead) {
  const TestFolder folder;
  start(small(), folder / "run");
  append(folder / "run/events.jsonl", R"({"event":"round","rou)");
  EXPECT_EQ(read_history(folder / "run").size(), 4U);
  append(folder / "run/events.jsonl", "\n");
  EXPECT_EQ(error_text([&] { read_history(folder / "run"); }),
            (folder / "run/events.jsonl").string() + ":7: not an event");
  EXPECT_TRUE(read_history(folder / "no run").empty());
}

TEST(Runner, EventsThatWereLostAreNotMadeUp) {
  const TestFolder folder;
  start_and_stop(remembering(), folder / "run", 6);
  const std::string events = read_file(folder / "run/events.jsonl");
  write_file_whole(folder / "run/events.jsonl", events.substr(0, 10));
  EXPECT_THAT(error_text([&] { resume(folder / "run"); }),
              HasSubstr("events.jsonl has 10 bytes, but the checkpoint was made after " +
                        std::to_string(events.size()) + " bytes of it"));
  fs::remove(folder / "run/events.jsonl");
  EXPECT_THAT(error_text([&] { resume(folder / "run"); }), HasSubstr("events.jsonl is missing"));
  write_file_whole(folder / "run/events.jsonl", events);
  EXPECT_EQ(resume(folder / "run").rounds_done, 4);
}

// The log is what the checkpoint was made after, or the run does not go on.
TEST(Runner, TheLogMustHoldTheRoundsOfTheCheckpoint) {
  const TestFolder folder;
  start_and_stop(remembering(), folder / "run", 6);
  const fs::path path = head_in(folder / "run/checkpoint");
  const TensorFile good = load_tensors(path);
  const std::string events = read_file(folder / "run/events.jsonl");
  const auto fate_with = [&](const std::function<void(Json&)>& change) {
    TensorFile file = good;
    Json json = Json::parse(file.metadata.at("winnow_checkpoint"));
    change(json);
    file.metadata["winnow_checkpoint"] = json.dump();
    seal_checkpoint(file);
    save_tensors(path, file);
    return error_text([&] { resume(folder / "run"); });
  };
  EXPECT_THAT(fate_with([](Json& json) { json["events_size"] = 10; }),
              HasSubstr("events.jsonl has no end of a line after the 10 bytes"));
  EXPECT_THAT(fate_with([&](Json& json) { json["events_size"] = events.find('\n') + 1; }),
              HasSubstr("events.jsonl does not hold the rounds of the checkpoint"));
  EXPECT_THAT(fate_with([](Json& json) { json["events_size"] = 0; }),
              HasSubstr("events.jsonl does not hold the rounds of the checkpoint"));
  EXPECT_THAT(fate_with([](Json& json) { json["events_size"] = 1 << 30; }),
              HasSubstr("but the checkpoint was made after 1073741824 bytes of it"));
  EXPECT_THAT(fate_with([](Json& json) { json["events_size"] = -1; }),
              HasSubstr("is damaged: events_size = -1"));
  // What only the session can see names the file, too.
  EXPECT_EQ(fate_with([](Json& json) { json["rounds_done"] = 3; }),
            "checkpoint " + path.string() +
                " is damaged: rounds_done = 3: there are 2 rounds in the history, and 4 in the "
                "experiment | delete the file to resume from an earlier checkpoint, or from the "
                "beginning where there is none");
  EXPECT_EQ(read_file(folder / "run/events.jsonl"), events) << "nothing is touched";
  EXPECT_EQ(fate_with([](Json&) {}), "no error");
}

TEST(Runner, ARunKilledRightAfterItsLastCheckpointStillGetsItsMetrics) {
  const TestFolder folder;
  start(small(), folder / "run");
  const std::string metrics = read_file(folder / "run/metrics.csv");
  for (const char* name : {"summary.json", "metrics.csv", "model.safetensors"}) {
    fs::remove(folder / "run" / name);
  }
  const Json summary = resume(folder / "run").summary;
  EXPECT_EQ(summary.at("model_hash"), undisturbed_hashes(small()).back());
  EXPECT_EQ(read_file(folder / "run/metrics.csv"), metrics);
  EXPECT_TRUE(fs::exists(folder / "run/model.safetensors"));
}

// The history is in the log alone: a changed round of it is noticed, whatever was changed.
TEST(Runner, AChangedLogIsRefused) {
  const TestFolder folder;
  start_and_stop(remembering(), folder / "run", 6);
  const std::string events = read_file(folder / "run/events.jsonl");
  std::string changed = events;
  const std::size_t place = changed.find("\"accuracy\":0.");
  ASSERT_NE(place, std::string::npos);
  changed[place + 13] = changed[place + 13] == '1' ? '2' : '1';
  write_file_whole(folder / "run/events.jsonl", changed);
  EXPECT_THAT(error_text([&] { resume(folder / "run"); }),
              HasSubstr("events.jsonl does not hold the rounds of the checkpoint | restore it"));
  write_file_whole(folder / "run/events.jsonl", events);
  EXPECT_EQ(resume(folder / "run").rounds_done, 4);
}

TEST(Runner, APartitionIsWrittenAsItIsInspected) {
  const TestFolder folder;
  start(small(), folder / "run");
  const Session session(small(), methods(), on_cpu(), nullptr);
  EXPECT_EQ(
      read_file(folder / "run/partition.json"),
      census_json(session.world(), count_clients(session.experiment(), session.world())).dump() +
          "\n");
}

TEST(Runner, WhatAKilledProcessWasWritingIsRemovedAndNothingElse) {
  const TestFolder folder;
  start_and_stop(remembering(), folder / "run", 6);
  const fs::path rest = temporary_beside(folder / "run/summary.json");
  write_file_whole(rest, "{");
  write_file_whole(temporary_beside(folder / "run/checkpoint/round-000000003.safetensors"), "x");
  write_file_whole(folder / "run/notes.tmp", "of the user");
  resume(folder / "run");
  EXPECT_FALSE(fs::exists(rest));
  EXPECT_EQ(read_file(folder / "run/notes.tmp"), "of the user");
  EXPECT_THAT(names_in(folder / "run/checkpoint"),
              ElementsAre("clients-0-000001.segment", "round-000000004.safetensors"));
}

TEST(Runner, AChangedExperimentIsRefused) {
  const TestFolder folder;
  start_and_stop(remembering(), folder / "run", 6);
  const std::string text = read_file(folder / "run/experiment.toml");
  for (const auto& [from, to] : {std::pair{"lr = 0.05", "lr = 0.06"}, {"lenet5", "cnn2"}}) {
    std::string changed = text;
    changed.replace(changed.find(from), std::string(from).size(), to);
    write_file_whole(folder / "run/experiment.toml", changed);
    EXPECT_THAT(error_text([&] { resume(folder / "run"); }),
                HasSubstr("was made under another experiment | restore the run's experiment.toml"));
  }
  write_file_whole(folder / "run/experiment.toml", text);
  EXPECT_EQ(resume(folder / "run").rounds_done, 4);
}

TEST(Runner, AModelIsTheStartOfAnotherRun) {
  const TestFolder folder;
  const Json first = start(small({"rounds=1"}), folder / "first").summary;
  const std::string set = "model.weights=" + (folder / "first/model.safetensors").string();
  // Without a step the first evaluation measures the weights of the file.
  start(small({"rounds=1", "train.lr=0", set}), folder / "second");
  const History history = read_history(folder / "second");
  EXPECT_EQ(history.at(0).accuracy, first.at("last").get<double>());
  const Json started =
      Json::parse(split(read_file(folder / "second/events.jsonl"), '\n').at(0)).at("weights");
  EXPECT_EQ(started.at("sha256"), sha256_hex(read_file(folder / "first/model.safetensors")));
  EXPECT_TRUE(started.at("left_fresh").empty());
}

TEST(Runner, AHeadForOtherClassesStartsFreshAndTheLogSaysSo) {
  const TestFolder folder;
  start(small({"rounds=1", "data.classes=3"}), folder / "first");
  const std::string set = "model.weights=" + (folder / "first/model.safetensors").string();
  start(small({"rounds=1", set}), folder / "second");
  const Json started = Json::parse(split(read_file(folder / "second/events.jsonl"), '\n').at(0));
  EXPECT_EQ(started.at("weights").at("left_fresh").dump(), R"(["fc3.weight","fc3.bias"])");
}

TEST(Runner, AChangedWeightFileIsRefused) {
  const TestFolder folder;
  const fs::path weights = folder / "w.safetensors";
  save_state(weights, Session(small({"seed=2"}), methods(), on_cpu(), nullptr).global());
  const std::string content = read_file(weights);
  start_and_stop(remembering({"model.weights=" + weights.string()}), folder / "run", 6);
  save_state(weights, Session(small({"seed=3"}), methods(), on_cpu(), nullptr).global());
  const std::string events = read_file(folder / "run/events.jsonl");
  EXPECT_EQ(error_text([&] { resume(folder / "run"); }),
            "model.weights = \"" + weights.string() +
                "\": the file is not the one that the run was started from | restore the file, or "
                "start a new run");
  EXPECT_EQ(read_file(folder / "run/events.jsonl"), events) << "nothing is touched";
  write_file_whole(weights, content);
  EXPECT_EQ(resume(folder / "run").rounds_done, 4);
}

TEST(Runner, ASecondProcessIsKeptOut) {
  const TestFolder folder;
  start_and_stop(remembering(), folder / "run", 6);
  const int other = ::open((folder / "run/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(error_text([&] { resume(folder / "run"); }),
            "another process is running in " + (folder / "run").string());
  ::close(other);
  EXPECT_EQ(resume(folder / "run").rounds_done, 4);
}

TEST(Runner, NotARunDirectory) {
  const TestFolder folder;
  EXPECT_EQ(error_text([&] { resume(folder.path()); }),
            folder.path().string() + " is not a run directory: it has no experiment.toml");
  EXPECT_EQ(error_kind([&] { resume(folder / "nowhere"); }), ErrorKind::run);
  EXPECT_TRUE(read_summary(folder.path()).is_null());
}

TEST(Runner, ADamagedSummaryIsNamed) {
  const TestFolder folder;
  const std::string name = (folder / "summary.json").string();
  for (const auto& [text, why] : {std::pair{"", "parse error"},
                                  {"{", "parse error"},
                                  {"[]", "name is not a text"},
                                  {"3", "name is not a text"},
                                  {R"({"name":7})", "name is not a text"},
                                  {R"({"name":"x"})", "method is not a text"}}) {
    write_file_whole(folder / "summary.json", text);
    EXPECT_THAT(error_text([&] { read_summary(folder.path()); }),
                AllOf(StartsWith(name + " is damaged: " + why),
                      EndsWith(" | delete it and resume the run")))
        << text;
  }
  Json whole{
      {"name", "x"},     {"method", "fedavg"},   {"model_hash", "0"},    {"seed", 1U},
      {"rounds", 1U},    {"participations", 1U}, {"best", 0.5},          {"last", 0.5},
      {"last10", 0.5},   {"bytes_up", 1},        {"bytes_down", 1},      {"wall_seconds", 1.0},
      {"device", "cpu"}, {"precision", "fp32"},  {"arithmetic", "avx2"}, {"fingerprint", "x"}};
  write_file_whole(folder / "summary.json", whole.dump());
  EXPECT_EQ(read_summary(folder.path()), whole);
  for (const auto& [key, value] : whole.items()) {
    Json changed = whole;
    changed[key] = Json::array({1});
    write_file_whole(folder / "summary.json", changed.dump());
    EXPECT_THAT(error_text([&] { read_summary(folder.path()); }),
                StartsWith(name + " is damaged: " + key + " is not a "));
  }
}

TEST(Runner, ASummaryOfAnEarlierVersionIsReadUnderTodaysNames) {
  const TestFolder folder;
  const Json old{{"name", "x"},
                 {"method", "fedavg"},
                 {"model_hash", "0"},
                 {"seed", 1U},
                 {"rounds", 1U},
                 {"participations", 1U},
                 {"best", 0.5},
                 {"last", 0.5},
                 {"last10", 0.5},
                 {"bytes_up", 1},
                 {"bytes_down", 1},
                 {"wall_seconds", 1.0},
                 {"precision", "fp32"},
                 {"detection", {{"flagged", 2}, {"precision", 0.5}, {"accuracy", 0.9}}}};
  write_file_whole(folder / "summary.json", old.dump());
  const Json summary = read_summary(folder.path());
  EXPECT_EQ(summary.at("precision"), "fp32");
  EXPECT_EQ(summary.at("detection"),
            Json::parse(R"({"flagged": 2, "flag_precision": 0.5, "flag_accuracy": 0.9})"));
}

TEST(Runner, ReplacesARunDirectoryAndNothingElse) {
  const TestFolder folder;
  const fs::path directory = folder / "run";
  const auto replace = [&] {
    RunObserver silence;
    start_run(small({"rounds=1"}), methods(), on_cpu(), directory, nullptr, silence,
              IfExists::replace);
  };
  start(small({"rounds=2"}), directory);
  replace();
  EXPECT_EQ(read_summary(directory).at("rounds"), 1);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("run")) << "nothing is left of the old one";

  write_file_whole(directory / "notes.txt", "mine");
  EXPECT_EQ(error_text(replace), directory.string() +
                                     " holds 'notes.txt', which no run writes | nothing was "
                                     "removed; choose another --out");
  fs::remove(directory / "notes.txt");
  fs::create_directories(directory / "pictures");
  EXPECT_THAT(error_text(replace), HasSubstr("holds 'pictures', which no run writes"));
  fs::remove(directory / "pictures");
  EXPECT_EQ(read_summary(directory).at("rounds"), 1) << "it is still there";

  write_file_whole(directory / "checkpoint/notes.txt", "mine");
  EXPECT_THAT(error_text(replace), HasSubstr("holds 'checkpoint', which no run writes"));
  fs::remove(directory / "checkpoint/notes.txt");

  fs::create_directory_symlink(directory, folder / "link");
  for (const char* link : {"link", "link/"}) {
    EXPECT_THAT(error_text([&] { remove_run(folder / link); }), HasSubstr("not a run directory"));
  }
  fs::create_directories(folder / "other");
  EXPECT_THAT(error_text([&] { remove_run(folder / "other"); }),
              HasSubstr("other is not a run directory | nothing was removed"));
  EXPECT_TRUE(fs::exists(directory / "summary.json"));
}

TEST(Runner, ANoteCannotTakeThePlaceOfAMeasuredValue) {
  class Boasting final : public FedAvg {
   public:
    void play(std::int64_t round, Server& server) override {
      FedAvg::play(round, server);
      server.notes["accuracy"] = 1.0;
      server.notes["hash"] = "mine";
      server.notes["flagged"] = {1, 2};
    }
  };
  Registry registry = methods();
  registry.methods.add({"boasting", "test", "", [] { return std::make_unique<Boasting>(); }});
  const TestFolder folder;
  start(parse_experiment(small_tree({"method.name=boasting", "rounds=1"}), registry),
        folder / "run", registry);
  const std::string line = split(read_file(folder / "run/events.jsonl"), '\n').at(1);
  EXPECT_NE(Json::parse(line).at("hash"), "mine");
  EXPECT_NE(Json::parse(line).at("accuracy"), 1.0);
  EXPECT_EQ(Json::parse(line).at("flagged").dump(), "[1,2]");
}

TEST(Runner, TheObserverSeesEveryRound) {
  class Counting final : public RunObserver {
   public:
    void started(const Session& session) override { log += std::to_string(session.rounds_done()); }
    void played(const Session& session, const Session::Played& played) override {
      EXPECT_EQ(played.record.round, session.rounds_done());
      log += ".";
    }
    void stopped() override { log += "!"; }
    std::string log;
  };
  const TestFolder folder;
  Counting counting;
  start_run(small(), methods(), on_cpu(), folder / "run", nullptr, counting);
  EXPECT_EQ(counting.log, "0....!");
  counting.log.clear();
  start_and_stop(remembering(), folder / "stopped", 6);
  resume_run(folder / "stopped", methods(), on_cpu(), nullptr, counting);
  EXPECT_EQ(counting.log, "2..!");
}

TEST(Runner, ARunThatFailsKeepsItsLastCheckpoint) {
  const TestFolder folder;
  const Experiment experiment = remembering();
  const Registry failing = methods([](std::int64_t round, std::int64_t) {
    if (round == 3) {
      throw Error(ErrorKind::run, "the third round failed");
    }
  });
  EXPECT_THAT(error_text([&] { start(experiment, folder / "run", failing); }),
              EndsWith("the third round failed"));
  EXPECT_FALSE(fs::exists(folder / "run/summary.json"));
  EXPECT_EQ(resume(folder / "run").summary.at("model_hash"), undisturbed_hashes(experiment).back());
}

}  // namespace winnow::runner_test
