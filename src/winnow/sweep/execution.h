// A sweep at work: which of its runs are to be played, and playing them, each in a process of its
// own, so that one that crashes takes nothing with it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <list>
#include <set>
#include <string>
#include <vector>

#include "winnow/run/session.h"
#include "winnow/sweep/sweep_index.h"

namespace winnow {

// Which runs of a sweep, and in which order.
struct SweepChoice {
  std::vector<std::string> only = {};  // texts that are all in the name of a run; ^: begins with it
  bool by_seed = false;                // one seed of every cell before the second seed of any
  std::string done = {};               // results file of runs that are left out
};

// What a sweep does with one of its runs.
struct PlannedRun {
  const SweepRun* run;
  RunStatus status;
  bool foreign;  // its directory was made from a different experiment
};

bool is_chosen(const SweepRun& run, const std::vector<std::string>& only);

// The runs that were chosen; the sweep must outlive them. Throws Error(kind usage) when there are
// none, and Error(kind run) for the directory of a single run.
std::vector<PlannedRun> plan_sweep(const Sweep& sweep, const std::filesystem::path& directory,
                                   const SweepChoice& choice, const Registry& registry);

// Throws Error(kind run) naming the first run that was made from a different experiment.
void refuse_foreign(const std::vector<PlannedRun>& plan, const std::filesystem::path& directory);

// What would be done: "would run", "finished", ...
std::string plan_text(const PlannedRun& planned, bool force);

// The share of its rounds that the run in this directory has logged. How many it will play is what
// it says when it starts: some methods have a schedule of their own.
double share_done(const std::filesystem::path& directory);

struct ExecutionOptions {
  std::int64_t jobs = 1;        // runs at the same time
  double deadline = 0.0;        // seconds; 0: none
  bool slim = false;            // finished runs keep their results only
  Runtime runtime = {};         // of each run
  std::string arithmetic = {};  // where it was asked for; else the environment hands it on
};

// How far a sweep is.
struct SweepProgress {
  std::size_t chosen = 0;    // runs of the plan
  std::size_t skipped = 0;   // finished before
  std::size_t finished = 0;  // now
  std::size_t failed = 0;
  double seconds = 0.0;
  std::vector<const SweepRun*> running = {};
};

class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  // Called many times a second, and once at the end.
  virtual void progress(const SweepProgress& /*progress*/, bool /*last*/) {}
};

// Plays what is not finished yet. The directory exists, with folders `experiments` and `logs`, and
// is locked. Runs made from a different experiment are replaced.
class SweepExecution {
 public:
  SweepExecution(const std::vector<PlannedRun>& plan, const std::filesystem::path& directory,
                 const ExecutionOptions& options, SweepObserver& observer);

  // A few at a time, each by this program with other arguments. When `stop` is set, or the deadline
  // has passed, the runs under way are told to save themselves.
  void execute(const std::atomic<bool>& stop);
  // One after the other in this process: starting one takes longer than a small run.
  void execute_here(const Registry& registry, const std::atomic<bool>& stop);

  struct Failure {
    std::string run;
    std::string words;  // exit code and message
  };
  const std::vector<Failure>& failures() const { return failures_; }
  bool stopped() const { return stopped_; }  // by the flag
  bool late() const { return late_; }        // the deadline has passed
  SweepProgress progress() const;

 private:
  struct Child {
    const SweepRun* run;
    pid_t pid;
  };

  double seconds() const;
  void end_early();
  void start(const SweepRun& run);
  bool starts_anew(const SweepRun& run) const;
  void finish(const SweepRun& run);
  void collect();
  std::filesystem::path log_of(const SweepRun& run) const;

  std::filesystem::path directory_;
  ExecutionOptions options_;
  SweepObserver& observer_;
  std::chrono::steady_clock::time_point begun_;
  std::list<const SweepRun*> waiting_;
  std::set<const SweepRun*> replaced_;  // made from a different experiment
  std::list<Child> running_;
  std::vector<Failure> failures_;
  std::size_t chosen_ = 0;
  std::size_t skipped_ = 0;
  std::size_t finished_ = 0;
  bool stopped_ = false;
  bool late_ = false;
};

}  // namespace winnow
