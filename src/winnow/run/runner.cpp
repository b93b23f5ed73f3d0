#include "winnow/run/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "winnow/base/arithmetic.h"
#include "winnow/base/build_info.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/sha256.h"
#include "winnow/engine/fingerprint.h"
#include "winnow/experiment/toml.h"
#include "winnow/judge/census.h"
#include "winnow/judge/judge.h"
#include "winnow/model/safetensors.h"
#include "winnow/model/script_net.h"
#include "winnow/run/directory_lock.h"
#include "winnow/run/format.h"
#include "winnow/run/run_directory.h"
#include "winnow/run/run_log.h"
#include "winnow/run/run_place.h"
#include "winnow/run/summary.h"
#include "winnow/run/tensorboard.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

// A run goes on from the weights that it was started from, or not at all.
void check_weights(const Json& started, const Session& session) {
  const WeightSource& source = session.weight_source();
  const auto weights = CheckedJson(started, "").find("weights");
  if (weights && weights->at("sha256").text() != source.hash) {
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
  if (!session.engine().shows_own_models()) {
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
  Recorder(const fs::path& directory, Session& session, const SpillOptions& spill)
      : directory_(directory),
        session_(session),
        experiment_hash_(session.experiment().hash_of(read_toml(directory / kExperimentFile))),
        checkpoints_(directory / kCheckpointFolder) {
    auto checkpoint = load_checkpoint(directory / kCheckpointFolder, experiment_hash_,
                                      session.global().layout, spill);
    const std::uintmax_t keep = checkpoint ? checkpoint->events_size : 0;
    const std::vector<Json> rounds = checkpoint ? continue_from(*checkpoint) : std::vector<Json>();
    remove_leftovers();
    events_ = std::make_unique<AppendingFile>(directory / kEventsFile, keep);
    tensorboard_ = std::make_unique<TensorBoardWriter>(directory / kTensorBoardFile, rounds);
    session.world().ledger.write(directory / kLedgerFile);
    write_census(directory / kPartitionFile, session.world());
    saved_rounds_ = session.rounds_done();
    if (checkpoint) {
      event({{"event", "resumed"},
             {"rounds_done", saved_rounds_},
             {"arithmetic", current_arithmetic()},
             {"fingerprint", fingerprint()}});
    } else {
      const Workforce force = session.engine().workforce();
      Json started{{"event", "started"},
                   {"format", kRunFormat},
                   {"name", session.experiment().name},
                   {"method", session.experiment().method},
                   {"rounds", session.rounds()},
                   {"clients", session.engine().size()},
                   {"uses_ground_truth", session.experiment().truth != Truth::none},
                   {"version", build_info::kVersion},
                   {"device", force.device.str()},
                   {"lanes", force.lanes},
                   {"arithmetic", current_arithmetic()},
                   {"fingerprint", fingerprint()}};
      if (force.engine != "local") {
        started["engine"] = force.engine;
        started["ranks"] = force.ranks;
      }
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
    Checkpoint head = session_.head();
    head.experiment_hash = experiment_hash_;
    head.events_size = events_->size();
    head.events_hash = Sha256(log_hash_).hex();
    head.parts = session_.save_parts(directory_ / kCheckpointFolder);
    session_.save_changes(checkpoints_.log());
    checkpoints_.save(std::move(head));
    write_metrics();
    saved_rounds_ = session_.rounds_done();
  }

  Json finish() {
    save();
    check_place();
    // Once more: a run killed right after its last checkpoint has that, but not these metrics.
    session_.measure_local_models();
    write_metrics();
    save_models(directory_ / kModelFile, session_);
    if (session_.measured() == Measured::global && session_.has_script()) {
      WholeFile file(directory_ / kScriptFile);
      session_.write_script([&file](std::string_view piece) { file.write(piece); });
      file.commit();
    }
    Json summary = make_summary(session_);
    event({{"event", "finished"}, {"model_hash", summary.at("model_hash")}});
    events_->sync();
    // The summary comes last: where it is, the run is complete.
    write_file_whole(directory_ / kSummaryFile, summary.dump(2) + "\n");
    return summary;
  }

 private:
  // Puts the checkpoint into the session, with the rounds of the log, which are returned.
  std::vector<Json> continue_from(Checkpoint& checkpoint) {
    check_events(checkpoint.events_size);
    hash_kept(checkpoint);
    std::vector<Json> rounds = read_rounds(checkpoint.events_size);
    if (!checkpoint.has_history) {
      checkpoint.history = Json(rounds);
    }
    // Of other ranks everything is written anew: clients may go elsewhere.
    const bool goes_on = session_.engine().workforce().ranks == 1 && checkpoints_.adopt(checkpoint);
    Checkpoint names;
    names.parts = checkpoint.parts;
    names.path = checkpoint.path;
    try {
      session_.restore(std::move(checkpoint));
    } catch (const Error& error) {
      throw damaged_checkpoint(names.path, error.what());
    }
    check_rounds(rounds);
    if (goes_on) {
      session_.forget_changes();
    }
    keep_only_checkpoint(names);
    return rounds;
  }

  void event(const Json& json) {
    const std::string line = json.dump();
    log_hash_.update(line + "\n");
    events_->write_line(line);
  }

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

  void write_metrics() {
    append_metrics();
    Json findings{{"round", session_.rounds_done()}};
    findings.update(judge_clients(session_.world(), session_.findings(), session_.details(),
                                  session_.engine().traces()));
    write_file_whole(directory_ / kFindingsFile, findings.dump() + "\n");
  }

  // All rounds the first time, whatever an earlier process has written; then those that are new.
  void append_metrics() {
    const History& history = session_.history();
    const fs::path path = directory_ / kMetricsFile;
    if (!metrics_ || !metrics_->in_place()) {
      const std::string text = metrics_csv(history);
      write_file_whole(path, text);
      metrics_ = std::make_unique<AppendingFile>(path, text.size());
    } else {
      metrics_->write(metrics_lines(history, measured_));
    }
    measured_ = history.size();
  }

  // Events are on the disk before the checkpoint that counts them.
  void check_events(std::uintmax_t expected) const {
    const fs::path path = directory_ / kEventsFile;
    std::error_code failed;
    const std::uintmax_t size = fs::file_size(path, failed);
    if (failed || size < expected) {
      refuse_events(fmt::format("{}, but the checkpoint was made after {} bytes of it",
                                failed ? "is missing" : fmt::format("has {} bytes", size),
                                expected));
    }
  }

  [[noreturn]] void refuse_events(const std::string& why) const {
    throw Error(ErrorKind::run, fmt::format("{} {}", (directory_ / kEventsFile).string(), why),
                fmt::format("restore it, or delete {} to start the run from its beginning",
                            (directory_ / kCheckpointFolder).string()));
  }

  // The log up to the checkpoint must be as it was when that was made.
  void hash_kept(const Checkpoint& checkpoint) {
    const std::uintmax_t keep = checkpoint.events_size;
    std::uintmax_t whole_lines = 0;
    if (keep > 0) {
      const auto add = [&](std::string_view line) {
        log_hash_.update(line);
        log_hash_.update("\n");
        whole_lines += line.size() + 1;
      };
      read_lines(directory_ / kEventsFile, add, keep);
    }
    if (whole_lines < keep) {
      refuse_events(
          fmt::format("has no end of a line after the {} bytes that the checkpoint was "
                      "made after",
                      keep));
    }
    if (!checkpoint.has_history && Sha256(log_hash_).hex() != checkpoint.events_hash) {
      refuse_events("does not hold the rounds of the checkpoint");
    }
  }

  // Of the first `size` bytes of the log.
  std::vector<Json> read_rounds(std::uintmax_t size) const {
    std::vector<Json> rounds;
    Json started = Json::object();
    const auto take = [&](const Json& event) {
      if (event.at("event") == "round") {
        std::ignore = round_of(event);
        rounds.push_back(event);
      } else if (event.at("event") == "started") {
        started = event;
      }
    };
    if (size > 0) {
      for_each_event(directory_ / kEventsFile, size, take);
    }
    check_weights(started, session_);
    return rounds;
  }

  // The rounds of the log must be those of the session's history.
  void check_rounds(const std::vector<Json>& rounds) const {
    const auto hash = [](const Json& event) { return round_of(event).hash; };
    if (!std::ranges::equal(rounds, session_.history(), {}, hash, &RoundRecord::hash)) {
      refuse_events("does not hold the rounds of the checkpoint");
    }
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
  std::string experiment_hash_;
  std::unique_ptr<AppendingFile> events_;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  std::int64_t saved_rounds_ = 0;
  CheckpointWriter checkpoints_;
  Sha256 log_hash_;  // of the log so far
  std::unique_ptr<AppendingFile> metrics_;
  std::size_t measured_ = 0;  // rounds in metrics_
};

// Plays the next round, as often as it takes.
Session::Played play_decided(Session& session) {
  for (;;) {
    try {
      return session.play();
    } catch (const Undecided&) {
      // The engine waits before it begins the round anew.
    }
  }
}

RunOutcome play_to_end(Session& session, const fs::path& directory, const SpillOptions& spill,
                       RunObserver& observer) {
  Recorder recorder(directory, session, spill);
  observer.started(session);
  RunOutcome outcome;
  try {
    session.check_directory(directory);
    while (session.rounds_done() < session.rounds()) {
      const Session::Played played = play_decided(session);
      session.check_directory(directory);  // before the first checkpoint
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
                     RunObserver& observer, IfExists if_exists) {
  const bool replaces = if_exists == IfExists::replace && fs::exists(directory);
  if (replaces) {
    check_removable(directory);
  } else if (fs::exists(directory)) {
    refuse_existing(directory);
  }
  Session session(experiment, registry, runtime, stop);
  if (replaces) {
    remove_run(directory);
  }
  create_run_directory(directory, experiment);
  const DirectoryLock lock(directory, at_work_in(directory));
  return play_to_end(session, directory, runtime.spill(), observer);
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
  return play_to_end(session, directory, runtime.spill(), observer);
}

void check_trust(const Experiment& experiment, const Runtime& runtime) {
  if (experiment.model.name == kTorchScript && !runtime.trust_model) {
    throw Error(ErrorKind::run,
                fmt::format("this run executes the TorchScript file {}", experiment.model.path),
                "add --trust-model if you trust it: such a file is a program");
  }
}

}  // namespace winnow
