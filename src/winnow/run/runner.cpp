#include "winnow/run/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>

#include "winnow/base/arithmetic.h"
#include "winnow/base/build_info.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/engine/fingerprint.h"
#include "winnow/model/safetensors.h"
#include "winnow/model/script_net.h"
#include "winnow/run/census.h"
#include "winnow/run/directory_lock.h"
#include "winnow/run/judge.h"
#include "winnow/run/summary.h"
#include "winnow/run/tensorboard.h"
#include "winnow/run/toml.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

std::string at_work_in(const fs::path& directory) {
  return fmt::format("another process is running in {}", directory.string());
}

// Everything that a run writes, but for experiment.toml, which is written once and only read later.
void refuse_links_of_run(const fs::path& directory) {
  refuse_links(directory,
               {"events.jsonl", kTensorBoardFile, "checkpoint", "metrics.csv", "findings.json",
                "ledger.jsonl", "partition.json", "model.safetensors", "model.pt", "summary.json"});
}

[[noreturn]] void refuse_existing(const fs::path& directory) {
  throw Error(ErrorKind::run, fmt::format("{} exists already", directory.string()),
              fmt::format("continue it with 'winnow resume {}', or choose another --out",
                          directory.string()));
}

// A directory that appears with its experiment inside or not at all.
void create_directory(const fs::path& directory, const Experiment& experiment) {
  fs::path target = fs::absolute(directory).lexically_normal();
  if (!target.has_filename()) {
    target = target.parent_path();  // it was given as "DIR/"
  }
  const fs::path temporary =
      temporary_beside(target.parent_path() / fmt::format(".{}", target.filename().string()));
  std::error_code failed;
  fs::create_directories(target.parent_path(), failed);
  // It must be new: somebody else's could hold links.
  if (failed || !fs::create_directory(temporary, failed)) {
    throw Error(ErrorKind::run,
                fmt::format("cannot create {}: {}", directory.string(), failed.message()),
                "choose a place you may write to with --out");
  }
  try {
    write_file_whole(temporary / "experiment.toml", write_toml(experiment.resolved()));
    fs::rename(temporary, target);
  } catch (const fs::filesystem_error& error) {
    remove_tree(temporary, failed);
    if (fs::exists(target, failed)) {
      refuse_existing(directory);
    }
    throw Error(ErrorKind::run,
                fmt::format("cannot create {}: {}", directory.string(), error.code().message()));
  } catch (...) {
    remove_tree(temporary, failed);
    throw;
  }
}

// Calls `take` with the events of a log, in order. Errors name `path`.
void for_each_event(const fs::path& path, const std::string& log,
                    const std::function<void(const Json&)>& take) {
  std::size_t number = 0;
  std::vector<std::string> lines = split(log, '\n');
  lines.pop_back();  // empty, or a line that a killed run did not finish
  for (const std::string& line : lines) {
    ++number;
    try {
      take(parse_json_or_null(line));
    } catch (const Json::exception&) {
      throw Error(ErrorKind::run, fmt::format("{}:{}: not an event", path.string(), number));
    }
  }
}

// A run goes on from the weights that it was started from, or not at all.
void check_weights(const Json& started, const Session& session) {
  const WeightSource& source = session.weight_source();
  const auto weights = started.find("weights");
  if (weights != started.end() && weights->at("sha256") != source.hash) {
    throw Error(ErrorKind::run,
                fmt::format("model.weights = \"{}\": the file is not the one that the run was "
                            "started from",
                            session.experiment().model.weights),
                "restore the file, or start a new run");
  }
}

// The measured models: the global one, or the clients' with names CLIENT/NAME.
void save_models(const fs::path& path, const Session& session) {
  if (session.measured() == Measured::global) {
    save_state(path, session.global());
    return;
  }
  TensorFile file;
  for (const auto& [client, model] : session.engine().own_models()) {
    for (const Slot& slot : model.layout->slots()) {
      file.tensors[fmt::format("{}/{}", client, slot.name)] = model.view(slot);
    }
  }
  save_tensors(path, file);
}

// Writes what a session produces into its directory.
class Recorder {
 public:
  Recorder(const fs::path& directory, Session& session) : directory_(directory), session_(session) {
    std::uintmax_t keep = 0;
    const auto checkpoint = load_checkpoint(directory / "checkpoint", session.experiment().hash(),
                                            session.engine().layout());
    if (checkpoint) {
      restore(*checkpoint, session);
      keep = checkpoint->events_size;
      check_events(keep);
    }
    const std::vector<Json> rounds = read_kept_rounds(keep);
    remove_leftovers();
    events_ = std::make_unique<AppendingFile>(directory / "events.jsonl", keep);
    tensorboard_ = std::make_unique<TensorBoardWriter>(directory / kTensorBoardFile, rounds);
    session.world().ledger.write(directory / "ledger.jsonl");
    const PartitionPicture picture = count_clients(session.experiment(), session.world());
    write_file_whole(directory / "partition.json",
                     census_json(session.world(), picture).dump() + "\n");
    saved_rounds_ = session.rounds_done();
    if (checkpoint) {
      event({{"event", "resumed"},
             {"rounds_done", saved_rounds_},
             {"arithmetic", current_arithmetic()},
             {"fingerprint", fingerprint()}});
    } else {
      Json started{{"event", "started"},
                   {"name", session.experiment().name},
                   {"method", session.experiment().method},
                   {"rounds", session.rounds()},
                   {"clients", session.engine().size()},
                   {"uses_ground_truth", session.experiment().truth != Truth::none},
                   {"version", build_info::kVersion},
                   {"device", session.engine().device().str()},
                   {"lanes", session.engine().lanes()},
                   {"arithmetic", current_arithmetic()},
                   {"fingerprint", fingerprint()}};
      if (const WeightSource& source = session.weight_source(); !source.hash.empty()) {
        started["weights"] = {{"sha256", source.hash}, {"left_fresh", source.left_fresh}};
      }
      event(started);
      keep_labels(session.first_labels());
    }
  }

  void round(const Session::Played& played) {
    Json line{{"event", "round"}};
    line.update(played.record.to_json());
    line.update(played.quality);
    for (const auto& [name, note] : played.notes.items()) {
      if (!line.contains(name)) {  // a note cannot take the place of a measured value
        line[name] = note;
      }
    }
    event(line);
    tensorboard_->add(line);
    keep_labels(played.labels);
  }

  // Everything up to here survives a crash.
  void save() {
    if (saved_rounds_ == session_.rounds_done() && saved_rounds_ > 0) {
      return;
    }
    check_place();
    events_->sync();
    Checkpoint checkpoint = session_.checkpoint();
    checkpoint.events_size = events_->size();
    save_checkpoint(directory_ / "checkpoint", checkpoint);
    write_metrics();
    saved_rounds_ = session_.rounds_done();
  }

  Json finish() {
    save();
    check_place();
    // Once more: a run killed right after its last checkpoint has that, but not these metrics.
    session_.measure_local_models();
    write_metrics();
    save_models(directory_ / "model.safetensors", session_);
    if (session_.measured() == Measured::global) {
      write_file_whole(directory_ / "model.pt", session_.script());
    }
    Json summary = make_summary(session_);
    event({{"event", "finished"}, {"model_hash", summary.at("model_hash")}});
    events_->sync();
    // The summary comes last: where it is, the run is complete.
    write_file_whole(directory_ / "summary.json", summary.dump(2) + "\n");
    return summary;
  }

 private:
  static void restore(const Checkpoint& checkpoint, Session& session) {
    try {
      session.restore(checkpoint);
    } catch (const Error& error) {
      throw damaged_checkpoint(checkpoint.path, error.what());
    }
  }

  void event(const Json& json) { events_->write_line(json.dump()); }

  void keep_labels(const Json& labels) {
    if (!labels.is_null()) {
      Json line{{"event", "labels"}};
      line.update(labels);
      event(line);
    }
  }

  // What is written under the directory's name must not end up in a new one.
  void check_place() const {
    if (!events_->in_place()) {
      throw Error(ErrorKind::run,
                  fmt::format("{} was removed, moved or replaced while the run was going on",
                              directory_.string()),
                  "if it was moved, continue it there with 'winnow resume'");
    }
  }

  void write_metrics() const {
    write_file_whole(directory_ / "metrics.csv", metrics_csv(session_.history()));
    Json findings{{"round", session_.rounds_done()}};
    findings.update(judge_clients(session_.world(), session_.findings(), session_.details(),
                                  session_.engine().memories()));
    write_file_whole(directory_ / "findings.json", findings.dump() + "\n");
  }

  // Events are on the disk before the checkpoint that counts them.
  void check_events(std::uintmax_t expected) const {
    const fs::path path = directory_ / "events.jsonl";
    std::error_code failed;
    const std::uintmax_t size = fs::file_size(path, failed);
    if (failed || size < expected) {
      refuse_events(fmt::format("{}, but the checkpoint was made after {} bytes of it",
                                failed ? "is missing" : fmt::format("has {} bytes", size),
                                expected));
    }
  }

  [[noreturn]] void refuse_events(const std::string& why) const {
    throw Error(ErrorKind::run, fmt::format("{} {}", (directory_ / "events.jsonl").string(), why),
                fmt::format("restore it, or delete {} to start the run from its beginning",
                            (directory_ / "checkpoint").string()));
  }

  // The rounds of the log up to the checkpoint, which must be those of its history.
  std::vector<Json> read_kept_rounds(std::uintmax_t keep) const {
    const fs::path path = directory_ / "events.jsonl";
    const std::string log = keep > 0 ? read_file(path).substr(0, keep) : "";
    if (!log.empty() && log.back() != '\n') {
      refuse_events(
          fmt::format("has no end of a line after the {} bytes that the checkpoint was "
                      "made after",
                      keep));
    }
    std::vector<Json> rounds;
    std::vector<std::string> hashes;
    for_each_event(path, log, [&](const Json& event) {
      if (event.at("event") == "round") {
        hashes.push_back(RoundRecord::from_json(event).hash);
        rounds.push_back(event);
      } else if (event.at("event") == "started") {
        check_weights(event, session_);
      }
    });
    if (!std::ranges::equal(hashes, session_.history(), {}, {}, &RoundRecord::hash)) {
      refuse_events("does not hold the rounds of the checkpoint");
    }
    return rounds;
  }

  // What a killed process was writing when it died; the lock says that nobody is writing now.
  void remove_leftovers() const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(directory_, ignored)) {
      if (is_leftover(entry.path())) {
        fs::remove(entry.path(), ignored);
      }
    }
  }

  fs::path directory_;
  Session& session_;
  std::unique_ptr<AppendingFile> events_;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  std::int64_t saved_rounds_ = 0;
};

RunOutcome play_to_end(Session& session, const fs::path& directory, RunObserver& observer) {
  Recorder recorder(directory, session);
  observer.started(session);
  RunOutcome outcome;
  try {
    while (session.rounds_done() < session.rounds()) {
      const Session::Played played = session.play();
      recorder.round(played);
      observer.played(session, played);
      if (session.rounds_done() % session.experiment().checkpoint_every == 0) {
        recorder.save();
      }
    }
    observer.stopped();
    outcome.summary = recorder.finish();
  } catch (const Interrupted&) {
    observer.stopped();
    recorder.save();
    outcome.interrupted = true;
  } catch (...) {
    observer.stopped();
    throw;
  }
  outcome.rounds_done = session.rounds_done();
  return outcome;
}

}  // namespace

RunOutcome start_run(const Experiment& experiment, const Registry& registry, const Runtime& runtime,
                     const fs::path& directory, const std::atomic<bool>* stop,
                     RunObserver& observer) {
  if (fs::exists(directory)) {
    refuse_existing(directory);
  }
  Session session(experiment, registry, runtime, stop);
  create_directory(directory, experiment);
  const DirectoryLock lock(directory, at_work_in(directory));
  return play_to_end(session, directory, observer);
}

RunOutcome resume_run(const fs::path& directory, const Registry& registry, const Runtime& runtime,
                      const std::atomic<bool>* stop, RunObserver& observer) {
  const Experiment experiment = read_run_experiment(directory, registry);
  refuse_links_of_run(directory);
  const DirectoryLock lock(directory, at_work_in(directory));
  if (Json summary = read_summary(directory); !summary.is_null()) {
    return {false, summary.at("rounds").get<std::int64_t>(), std::move(summary)};
  }
  check_trust(experiment, runtime);
  check_arithmetic(directory);
  Session session(experiment, registry, runtime, stop);
  return play_to_end(session, directory, observer);
}

void slim_run(const fs::path& directory) {
  refuse_links_of_run(directory);
  const DirectoryLock lock(directory, at_work_in(directory));
  if (read_summary(directory).is_null()) {
    throw Error(ErrorKind::run, fmt::format("{} is not finished", directory.string()));
  }
  for (const char* name :
       {"checkpoint", "model.safetensors", "model.pt", "ledger.jsonl", kTensorBoardFile}) {
    std::error_code failed;
    remove_tree(directory / name, failed);
    if (failed) {
      throw Error(ErrorKind::run, fmt::format("cannot remove {}: {}", (directory / name).string(),
                                              failed.message()));
    }
  }
}

bool is_running(const fs::path& directory) {
  return DirectoryLock::is_held(directory);
}

void check_trust(const Experiment& experiment, const Runtime& runtime) {
  if (experiment.model.name == kTorchScript && !runtime.trust_model) {
    throw Error(ErrorKind::run,
                fmt::format("this run executes the TorchScript file {}", experiment.model.path),
                "add --trust-model if you trust it: such a file is a program");
  }
}

Json read_summary(const fs::path& directory) {
  const fs::path path = directory / "summary.json";
  if (!fs::exists(path)) {
    return nullptr;
  }
  constexpr const char* kHint = "delete it and resume the run";
  Json summary = parse_json(read_file(path), path.string(), ErrorKind::run, kHint);
  const auto require = [&](const char* key, const char* expected, auto fits) {
    const auto found = summary.find(key);
    if (found == summary.end() || !fits(*found)) {
      throw Error(ErrorKind::run,
                  fmt::format("{} is damaged: {} is not {}", path.string(), key, expected), kHint);
    }
  };
  for (const char* key : {"name", "method", "model_hash"}) {
    require(key, "a text", [](const Json& value) { return value.is_string(); });
  }
  for (const char* key : {"device", "precision", "arithmetic", "fingerprint"}) {
    if (summary.contains(key)) {  // older runs lack some
      require(key, "a text", [](const Json& value) { return value.is_string(); });
    }
  }
  for (const char* key : {"seed", "rounds", "participations"}) {
    require(key, "a count", [](const Json& value) { return value.is_number_unsigned(); });
  }
  for (const char* key : {"best", "last", "bytes_up", "bytes_down", "wall_seconds"}) {
    require(key, "a number", [](const Json& value) { return value.is_number(); });
  }
  // Null where not all of the last ten rounds were evaluated.
  require("last10", "a number", [](const Json& v) { return v.is_number() || v.is_null(); });
  return summary;
}

Experiment read_run_experiment(const fs::path& directory, const Registry& registry) {
  const fs::path path = directory / "experiment.toml";
  if (!fs::exists(path)) {
    throw Error(ErrorKind::run, fmt::format("{} is not a run directory: it has no experiment.toml",
                                            directory.string()));
  }
  Experiment experiment = load_experiment(path, {}, registry);
  experiment.rounds_given = false;  // every key is written there, so it says nothing
  return experiment;
}

std::optional<ComputedWith> read_computed_with(const fs::path& directory) {
  const fs::path path = directory / "events.jsonl";
  if (!fs::exists(path)) {
    return std::nullopt;
  }
  const std::string events = read_file(path);
  const Json started = parse_json_or_null(std::string_view(events).substr(0, events.find('\n')));
  if (!started.contains("arithmetic")) {
    return std::nullopt;
  }
  try {
    return ComputedWith{printable(started.at("arithmetic").get<std::string>()),
                        printable(started.value("fingerprint", ""))};
  } catch (const Json::exception&) {
    throw Error(ErrorKind::run, fmt::format("{}:1: not an event", path.string()));
  }
}

void check_arithmetic(const fs::path& directory) {
  const auto recorded = read_computed_with(directory);
  const std::string now = current_arithmetic();
  if (recorded && recorded->arithmetic != kUnnamedArithmetic && recorded->arithmetic != now) {
    throw Error(ErrorKind::run,
                fmt::format("{} was computed with the arithmetic {}, not {}", directory.string(),
                            recorded->arithmetic, now),
                fmt::format("use --arithmetic {}, or start a new run with 'winnow run'",
                            recorded->arithmetic));
  }
}

void read_events(const fs::path& directory, const std::function<void(const Json&)>& take) {
  const fs::path path = directory / "events.jsonl";
  if (fs::exists(path)) {  // or else killed before its first event
    for_each_event(path, read_file(path), take);
  }
}

History read_history(const fs::path& directory) {
  History history;
  read_events(directory, [&](const Json& event) {
    if (event.at("event") == "round") {
      history.push_back(RoundRecord::from_json(event));
    }
  });
  return history;
}

}  // namespace winnow
