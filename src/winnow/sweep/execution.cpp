#include "winnow/sweep/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <thread>

#include "winnow/base/child.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/experiment/toml.h"
#include "winnow/run/run_directory.h"
#include "winnow/run/runner.h"
#include "winnow/sweep/results.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kEndOfLog = std::size_t{1} << 20;
// A run that is told to end before it can listen has done nothing that it could save.
constexpr int kEndedAtStart = 128 + SIGTERM;

// The last error in a run's log with its hint, on one line and without the program's name.
std::string last_words(const fs::path& log) {
  std::string last;
  bool hint_follows = false;
  for (const std::string& line : split(read_end(log, kEndOfLog), '\n')) {
    if (line.starts_with("winnow: ")) {
      last = line.substr(8);
      hint_follows = true;
    } else if (hint_follows && line.starts_with("  ")) {
      last += fmt::format(" ({})", trim(line));
      hint_follows = false;
    }
  }
  return last.empty() ? "see " + log.string() : last;
}

// One seed of every cell before the second seed of any. Seeds come in the order of the file, also
// where runs are left out.
void order_by_seed(const Sweep& sweep, std::vector<PlannedRun>& plan) {
  std::vector<std::uint64_t> seeds;
  for (const SweepRun& run : sweep.runs) {
    if (std::ranges::count(seeds, run.seed) == 0) {
      seeds.push_back(run.seed);
    }
  }
  std::ranges::stable_sort(plan, {}, [&](const PlannedRun& planned) {
    return std::ranges::find(seeds, planned.run->seed) - seeds.begin();
  });
}

// The last event of a round in a log, which may be long and is looked at often: only its end is
// read, and more of it where the round is not there. Null where there is none.
Json last_round(const fs::path& events) {
  constexpr std::string_view kRound = R"({"event":"round")";
  for (std::size_t bytes = std::size_t{1} << 14;; bytes *= 8) {
    const std::string end = read_end(events, bytes);
    std::vector<std::string> lines = split(end, '\n');
    lines.pop_back();  // empty, or not complete
    const bool is_all = end.size() < bytes;
    if (!is_all && !lines.empty()) {
      lines.erase(lines.begin());  // it may have begun earlier
    }
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
      if (line->starts_with(kRound)) {
        return parse_json_or_null(*line);
      }
    }
    if (is_all || bytes >= kLongestLine) {
      return nullptr;
    }
  }
}

}  // namespace

double share_done(const fs::path& directory) {
  const fs::path events = directory / kEventsFile;
  if (!fs::exists(events)) {
    return 0.0;
  }
  const auto number = [](const Json& event, const char* key) {
    const auto found = event.is_object() ? event.find(key) : event.end();
    return found != event.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
  };
  const std::int64_t of = number(parse_json_or_null(read_first_line(events)), "rounds");
  const std::int64_t rounds = number(last_round(events), "round");
  return of > 0 ? static_cast<double>(rounds) / static_cast<double>(of) : 0.0;
}

bool is_chosen(const SweepRun& run, const std::vector<std::string>& only) {
  return std::ranges::all_of(only, [&](const std::string& text) {
    return text.starts_with('^') ? run.id.starts_with(text.substr(1))
                                 : run.id.find(text) != std::string::npos;
  });
}

std::vector<PlannedRun> plan_sweep(const Sweep& sweep, const fs::path& directory,
                                   const SweepChoice& choice, const Registry& registry) {
  const std::vector<ResultLine> done = choice.done.empty() || !fs::exists(choice.done)
                                           ? std::vector<ResultLine>()
                                           : read_results(choice.done);
  if (run_status(directory) != RunStatus::missing) {
    throw Error(ErrorKind::run,
                fmt::format("{} is the directory of a single run", directory.string()),
                "choose another --out");
  }
  std::vector<PlannedRun> plan;
  std::size_t named = 0;
  for (const SweepRun& run : sweep.runs) {
    if (!is_chosen(run, choice.only)) {
      continue;
    }
    ++named;
    if (has_result(done, run)) {
      continue;
    }
    const fs::path home = directory / run.id;
    const RunStatus status = run_status(home);
    const bool foreign = status != RunStatus::missing &&
                         read_run_experiment(home, registry).hash() != run.experiment.hash();
    plan.push_back({&run, status, foreign});
  }
  if (named == 0) {
    throw Error(ErrorKind::usage, fmt::format("--only {}: no run has this in its name",
                                              join(choice.only, " --only ")));
  }
  if (choice.by_seed) {
    order_by_seed(sweep, plan);
  }
  return plan;
}

void refuse_foreign(const std::vector<PlannedRun>& plan, const fs::path& directory) {
  const auto found = std::ranges::find_if(plan, &PlannedRun::foreign);
  if (found != plan.end()) {
    throw Error(ErrorKind::run,
                fmt::format("{} was made from a different experiment",
                            (directory / found->run->id).string()),
                "choose another --out, or replace it with --force");
  }
}

std::string plan_text(const PlannedRun& planned, bool force) {
  if (planned.foreign) {
    return force ? "would replace a run of another experiment"
                 : "was made from a different experiment";
  }
  switch (planned.status) {
    case RunStatus::finished:
      return "finished";
    case RunStatus::started:
      return "would continue";
    default:
      return "would run";
  }
}

SweepExecution::SweepExecution(const std::vector<PlannedRun>& plan, const fs::path& directory,
                               const ExecutionOptions& options, SweepObserver& observer)
    : directory_(directory),
      options_(options),
      observer_(observer),
      begun_(std::chrono::steady_clock::now()),
      chosen_(plan.size()) {
  for (const PlannedRun& planned : plan) {
    if (planned.foreign) {
      replaced_.insert(planned.run);
    }
    if (planned.status == RunStatus::finished && !planned.foreign) {
      ++skipped_;
    } else {
      waiting_.push_back(planned.run);
    }
  }
}

SweepProgress SweepExecution::progress() const {
  SweepProgress progress{.chosen = chosen_,
                         .skipped = skipped_,
                         .finished = finished_,
                         .failed = failures_.size(),
                         .seconds = seconds()};
  for (const Child& child : running_) {
    progress.running.push_back(child.run);
  }
  return progress;
}

void SweepExecution::execute(const std::atomic<bool>& stop) {
  while (!waiting_.empty() || !running_.empty()) {
    if (stop && !stopped_) {
      stopped_ = true;
      end_early();
    } else if (options_.deadline > 0.0 && !late_ && seconds() > options_.deadline) {
      late_ = true;
      end_early();
    }
    while (!waiting_.empty() && running_.size() < static_cast<std::size_t>(options_.jobs)) {
      start(*waiting_.front());
      waiting_.pop_front();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    collect();
    observer_.progress(progress(), false);
  }
  observer_.progress(progress(), true);
}

void SweepExecution::execute_here(const Registry& registry, const std::atomic<bool>& stop) {
  Runtime runtime = options_.runtime;
  runtime.trust_model = true;  // as in start()
  RunObserver silence;
  for (const SweepRun* run : waiting_) {
    const fs::path home = directory_ / run->id;
    late_ = options_.deadline > 0.0 && seconds() > options_.deadline;
    if (late_) {
      break;
    }
    try {
      const RunOutcome outcome =
          starts_anew(*run)
              ? start_run(run->experiment, registry, runtime, home, &stop, silence,
                          replaced_.contains(run) ? IfExists::replace : IfExists::refuse)
              : resume_run(home, registry, runtime, &stop, silence);
      if (outcome.interrupted) {
        stopped_ = true;
        break;
      }
      finish(*run);
      observer_.progress(progress(), false);
    } catch (const Error& error) {
      failures_.push_back(
          {run->id, fmt::format("(exit code {}): {}", exit_code(error.kind()), error.what())});
    }
  }
  observer_.progress(progress(), true);
}

double SweepExecution::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
}

// The runs under way save themselves.
void SweepExecution::end_early() {
  waiting_.clear();
  for (const Child& child : running_) {
    ::kill(child.pid, SIGTERM);
  }
}

void SweepExecution::start(const SweepRun& run) {
  const fs::path home = directory_ / run.id;
  std::vector<std::string> arguments;
  if (starts_anew(run)) {
    const fs::path file = directory_ / "experiments" / (run.id + ".toml");
    write_file_whole(file, write_toml(run.experiment.resolved()));
    arguments = {"run", file.string(), "--out", home.string()};
    if (replaced_.contains(&run)) {
      arguments.emplace_back("--force");
    }
  } else {
    // Its experiment is the one that the user's file makes: refuse_foreign() has compared them.
    arguments = {"resume", home.string(), "--trust-model"};
  }
  std::int64_t lanes = options_.runtime.lanes;
  if (lanes == 0 && options_.jobs > 1) {
    lanes = std::max<std::int64_t>(1, std::thread::hardware_concurrency() / options_.jobs);
  }
  if (lanes > 0) {
    arguments.insert(arguments.end(), {"--lanes", std::to_string(lanes)});
  }
  arguments.insert(arguments.end(), {"--device", options_.runtime.device, "--precision",
                                     options_.runtime.precision, "--quiet"});
  if (options_.runtime.wire) {
    arguments.emplace_back("--wire");
  }
  if (!options_.arithmetic.empty()) {
    arguments.insert(arguments.end(), {"--arithmetic", options_.arithmetic});
  }
  running_.push_back({&run, start_child(arguments, log_of(run))});
}

bool SweepExecution::starts_anew(const SweepRun& run) const {
  return replaced_.contains(&run) || run_status(directory_ / run.id) == RunStatus::missing;
}

void SweepExecution::finish(const SweepRun& run) {
  ++finished_;
  if (options_.slim) {
    slim_run(directory_ / run.id);
  }
}

void SweepExecution::collect() {
  for (auto child = running_.begin(); child != running_.end();) {
    const std::optional<int> code = poll_child(child->pid);
    if (!code) {
      ++child;
      continue;
    }
    if (*code == 0) {
      finish(*child->run);
    } else if (*code != kExitInterrupted && !(*code == kEndedAtStart && (stopped_ || late_))) {
      failures_.push_back({child->run->id, fmt::format("(exit code {}): {}", *code,
                                                       last_words(log_of(*child->run)))});
    }
    child = running_.erase(child);
  }
}

fs::path SweepExecution::log_of(const SweepRun& run) const {
  return directory_ / "logs" / (run.id + ".log");
}

}  // namespace winnow
