#include "winnow/run/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
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
#include "winnow/judge/quality.h"
#include "winnow/model/safetensors.h"
#include "winnow/model/script_net.h"
#include "winnow/run/directory_lock.h"
#include "winnow/run/format.h"
#include "winnow/run/run_directory.h"
#include "winnow/run/summary.h"
#include "winnow/run/tensorboard.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

std::string at_work_in(const fs::path& directory) {
  return fmt::format("another process is running in {}", directory.string());
}

constexpr std::array<std::string_view, 16> kRunFiles{
    kExperimentFile, kEventsFile,       kTensorBoardFile, kMetricsFile, kFindingsFile, kLedgerFile,
    kPartitionFile,  kModelFile,        kScriptFile,      kSummaryFile, "lock",        kJournalFile,
    kJournalLogFile, kJournalIndexFile, kNetworkFile,     kMembersFile};

// Everything that a run writes, but for experiment.toml, which is written once and only read later.
void refuse_links_of_run(const fs::path& directory) {
  refuse_links(directory,
               {kEventsFile, kTensorBoardFile, kCheckpointFolder, kMetricsFile, kFindingsFile,
                kLedgerFile, kPartitionFile, kModelFile, kScriptFile, kSummaryFile, kJournalFile,
                kJournalLogFile, kJournalIndexFile, kNetworkFile, kMembersFile, kSpoolFolder});
}

[[noreturn]] void refuse_existing(const fs::path& directory) {
  if (!fs::exists(directory / kExperimentFile)) {
    throw Error(ErrorKind::run,
                fmt::format("{} exists already and is not a run directory", directory.string()),
                "choose another --out");
  }
  if (fs::exists(directory / kSummaryFile)) {
    throw Error(ErrorKind::run, fmt::format("{} holds a finished run", directory.string()),
                "replace it with --force, or choose another --out");
  }
  throw Error(ErrorKind::run,
              fmt::format("{} holds a run that is not finished", directory.string()),
              fmt::format("continue it with 'winnow resume {}', replace it with --force, or choose "
                          "another --out",
                          directory.string()));
}

// "DIR/" as "DIR": with the slash a symbolic link would be followed.
fs::path without_slash(const fs::path& directory) {
  return directory.has_filename() ? directory : directory.parent_path();
}

// Whether a run writes an entry of its directory: a file, the folder of checkpoints, or that of the
// replies of a real federation.
bool is_of_run(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  if (!fs::is_directory(entry.symlink_status())) {
    return std::ranges::count(kRunFiles, name) > 0 || is_leftover(entry.path());
  }
  const bool is_checkpoint = name == kCheckpointFolder;
  const std::string_view extension = is_checkpoint ? ".safetensors" : kSpoolExtension;
  return (is_checkpoint || name == kSpoolFolder) &&
         std::ranges::all_of(fs::directory_iterator(entry.path()), [&](const auto& file) {
           return fs::is_regular_file(file.symlink_status()) &&
                  (file.path().extension() == extension || is_leftover(file.path()) ||
                   (is_checkpoint && is_segment(file.path())));
         });
}

// Throws where removing the directory could remove more than a run.
void check_removable(const fs::path& directory) {
  constexpr const char* kHint = "nothing was removed; choose another --out";
  if (fs::is_symlink(without_slash(directory)) || !fs::is_directory(directory) ||
      !fs::is_regular_file(fs::symlink_status(directory / kExperimentFile))) {
    throw Error(ErrorKind::run, fmt::format("{} is not a run directory", directory.string()),
                kHint);
  }
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (!is_of_run(entry)) {
      throw Error(ErrorKind::run,
                  fmt::format("{} holds '{}', which no run writes", directory.string(),
                              entry.path().filename().string()),
                  kHint);
    }
  }
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
    write_file_whole(temporary / kExperimentFile, write_toml(experiment.resolved()));
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

// Thrown for an event of a round that does not hold what it should.
struct NoRound {};

RoundRecord round_of(const Json& event) {
  try {
    return RoundRecord::from_json(event);
  } catch (const Error&) {
    throw NoRound();
  }
}

// Calls `take` with the events in the first `size` bytes of a log, in order; a last line that a
// killed run did not finish is none. Where it refuses one, the error names `path`.
void for_each_event(const fs::path& path, std::uintmax_t size,
                    const std::function<void(const Json&)>& take) {
  std::size_t number = 0;
  const auto take_line = [&](std::string_view line) {
    ++number;
    try {
      Json event = parse_json_or_null(line);
      if (number == 1) {
        check_format(event, path);
      }
      rename_flag_quality(event);
      take(event);
    } catch (const Json::exception&) {
      throw Error(ErrorKind::run, fmt::format("{}:{}: not an event", path.string(), number));
    } catch (const NoRound&) {
      throw Error(ErrorKind::run, fmt::format("{}:{}: not an event", path.string(), number));
    }
  };
  read_lines(path, take_line, size);
}

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
  Recorder(const fs::path& directory, Session& session)
      : directory_(directory),
        session_(session),
        experiment_hash_(session.experiment().hash_of(read_toml(directory / kExperimentFile))),
        checkpoints_(directory / kCheckpointFolder) {
    auto checkpoint = load_checkpoint(directory / kCheckpointFolder, experiment_hash_,
                                      session.crew().layout(), session.spill_options());
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
      Json started{{"event", "started"},
                   {"format", kRunFormat},
                   {"name", session.experiment().name},
                   {"method", session.experiment().method},
                   {"rounds", session.rounds()},
                   {"clients", session.engine().size()},
                   {"uses_ground_truth", session.experiment().truth != Truth::none},
                   {"version", build_info::kVersion},
                   {"device", session.crew().device().str()},
                   {"lanes", session.engine().workforce().lanes},
                   {"arithmetic", current_arithmetic()},
                   {"fingerprint", fingerprint()}};
      if (const Workforce force = session.engine().workforce(); force.engine != "local") {
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

RunOutcome play_to_end(Session& session, const fs::path& directory, RunObserver& observer) {
  Recorder recorder(directory, session);
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
  create_directory(directory, experiment);
  const DirectoryLock lock(directory, at_work_in(directory));
  return play_to_end(session, directory, observer);
}

void remove_run(const fs::path& directory) {
  check_removable(directory);
  const DirectoryLock lock(directory, at_work_in(directory));
  std::error_code failed;
  remove_tree(without_slash(directory), failed);
  if (failed) {
    throw Error(ErrorKind::run,
                fmt::format("cannot remove {}: {}", directory.string(), failed.message()));
  }
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
       {kCheckpointFolder, kModelFile, kScriptFile, kLedgerFile, kTensorBoardFile}) {
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
  const fs::path path = directory / kSummaryFile;
  if (!fs::exists(path)) {
    return nullptr;
  }
  constexpr const char* kHint = "delete it and resume the run";
  Json summary =
      parse_json(read_file(path, kLargestSmallFile), path.string(), ErrorKind::run, kHint);
  check_format(summary, path);
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
  rename_flag_quality(summary);
  return summary;
}

Experiment read_run_experiment(const fs::path& directory, const Registry& registry) {
  const fs::path path = directory / kExperimentFile;
  if (!fs::exists(path)) {
    throw Error(ErrorKind::run, fmt::format("{} is not a run directory: it has no experiment.toml",
                                            directory.string()));
  }
  first_event(directory);  // a newer format says more than a key that is not known here
  Experiment experiment = load_experiment(path, {}, registry);
  experiment.rounds_given = false;  // every key is written there, so it says nothing
  experiment.train_given.clear();
  return experiment;
}

std::optional<ComputedWith> read_computed_with(const fs::path& directory) {
  const fs::path path = directory / kEventsFile;
  const Json started = first_event(directory);
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
  const fs::path path = directory / kEventsFile;
  if (fs::exists(path)) {  // or else killed before its first event
    for_each_event(path, std::numeric_limits<std::uintmax_t>::max(), take);
  }
}

History read_history(const fs::path& directory) {
  History history;
  read_events(directory, [&](const Json& event) {
    if (event.at("event") == "round") {
      history.push_back(round_of(event));
    }
  });
  return history;
}

}  // namespace winnow
