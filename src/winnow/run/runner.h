// Runs an experiment in a run directory: events, checkpoints, summary, model. A run killed at any
// instant continues from its directory and ends in the same bits.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "winnow/method/method.h"
#include "winnow/run/session.h"

namespace winnow {

// Told what happens, on the thread that runs. Default: silence.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void started(const Session& /*session*/) {}
  virtual void played(const Session& /*session*/, const Session::Played& /*played*/) {}
  virtual void stopped() {}  // before the summary, also after an interruption or an error
};

struct RunOutcome {
  bool interrupted = false;
  std::int64_t rounds_done = 0;
  Json summary;  // empty when interrupted
};

// What to do where the directory of a new run is there already.
enum class IfExists { refuse, replace };

// Starts a run in `directory`, which must not exist yet (Error kind run otherwise) or, with
// IfExists::replace, may be a run directory as remove_run() takes it; that is removed when
// everything else is ready. When `stop` is
// set, the round under way is dropped, the run is saved as of the last finished one, and the
// outcome says so. Bad data or a bad experiment is reported before anything is written.
RunOutcome start_run(const Experiment& experiment, const Registry& registry, const Runtime& runtime,
                     const std::filesystem::path& directory, const std::atomic<bool>* stop,
                     RunObserver& observer, IfExists if_exists = IfExists::refuse);

// Removes a run directory, finished or not. Throws Error(kind run) and removes nothing where it is
// no run directory, where a process is at work in it, and where it holds anything that a run does
// not write.
void remove_run(const std::filesystem::path& directory);

// Continues the run of a directory from its last checkpoint, or from the start when there is none.
// A finished run is left as it is and its summary returned. Throws as check_arithmetic() does. The
// directory may come from anybody: one that holds symbolic links where a run writes is refused, and
// see check_trust().
RunOutcome resume_run(const std::filesystem::path& directory, const Registry& registry,
                      const Runtime& runtime, const std::atomic<bool>* stop, RunObserver& observer);

// Throws Error(kind run) when the experiment of a run directory would have a TorchScript file
// executed and the user has not said that it is to be trusted. (That of `winnow run` is named by
// the user.)
void check_trust(const Experiment& experiment, const Runtime& runtime);

// Removes the large parts from the directory of a finished run: models, checkpoint, ledger and the
// TensorBoard log. What tables and reports are made from stays, and `verify` plays it again.
void slim_run(const std::filesystem::path& directory);

// Whether a process is at work in a run directory.
bool is_running(const std::filesystem::path& directory);

// The summary of a finished run, or null.
Json read_summary(const std::filesystem::path& directory);

// The experiment a run directory was made for; throws Error(kind run) when it is not a run
// directory.
Experiment read_run_experiment(const std::filesystem::path& directory, const Registry& registry);

// What a run was computed with (base/arithmetic.h, engine/fingerprint.h).
struct ComputedWith {
  std::string arithmetic;
  std::string fingerprint;
};

// What the log of a run directory says when it starts; nothing where it does not say.
std::optional<ComputedWith> read_computed_with(const std::filesystem::path& directory);

// Throws Error(kind run) where a run was computed with another named arithmetic than this process
// computes with.
void check_arithmetic(const std::filesystem::path& directory);

// Calls `take` with the events of a run directory, in order. A Json::exception that it throws
// becomes an Error(kind run) that names the line.
void read_events(const std::filesystem::path& directory,
                 const std::function<void(const Json&)>& take);

// The rounds logged in a run directory's events, in order.
History read_history(const std::filesystem::path& directory);

}  // namespace winnow
