// `winnow sweep`: every run is a process of its own, so that one that crashes takes nothing with
// it.
#include <fmt/format.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <list>
#include <set>
#include <thread>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/cli/child.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/cli/progress.h"
#include "winnow/cli/signals.h"
#include "winnow/report/table.h"
#include "winnow/run/directory_lock.h"
#include "winnow/run/notices.h"
#include "winnow/run/paper.h"
#include "winnow/run/results.h"
#include "winnow/run/runner.h"
#include "winnow/run/sweep.h"
#include "winnow/run/toml.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

struct SweepFlags {
  std::string file;
  std::string out;
  std::int64_t jobs = 1;
  std::vector<std::string> only;
  std::string order = "file";
  std::string scale = "full";
  std::string done;
  double deadline = 0.0;
  bool slim = false;
  bool dry_run = false;
  bool json = false;
  RuntimeFlags runtime;
  OverrideFlags overrides;
};

// The last error in a run's log with its hint, on one line and without the program's name.
std::string last_words(const fs::path& log) {
  std::string last;
  bool hint_follows = false;
  for (const std::string& line : split(read_file(log), '\n')) {
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

// The share of its rounds that a running child has logged. How many it will play is what it says
// when it starts: some methods have a schedule of their own.
double share_done(const fs::path& directory) {
  const fs::path events = directory / "events.jsonl";
  if (!fs::exists(events)) {
    return 0.0;
  }
  std::int64_t rounds = 0;
  std::int64_t of = 0;
  for (const std::string& line : split(read_file(events), '\n')) {
    if (line.starts_with(R"({"event":"round")")) {
      ++rounds;
    } else if (line.starts_with(R"({"event":"started")")) {
      const Json started = parse_json_or_null(line);
      const auto planned = started.find("rounds");
      of = planned != started.end() && planned->is_number_integer() ? planned->get<std::int64_t>()
                                                                    : 0;
    }
  }
  return of > 0 ? static_cast<double>(rounds) / static_cast<double>(of) : 0.0;
}

// What a sweep does with one of its runs.
struct PlannedRun {
  const SweepRun* run;
  RunStatus status;
  bool foreign;  // its directory was made from another experiment
};

bool is_chosen(const SweepRun& run, const std::vector<std::string>& only) {
  return std::ranges::all_of(
      only, [&](const std::string& text) { return run.id.find(text) != std::string::npos; });
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

// The runs that were asked for. A dry run and a real one go by the same plan.
std::vector<PlannedRun> make_plan(const Sweep& sweep, const fs::path& directory,
                                  const SweepFlags& flags, const Registry& registry) {
  const std::vector<ResultLine> done = flags.done.empty() || !fs::exists(flags.done)
                                           ? std::vector<ResultLine>()
                                           : read_results(flags.done);
  if (run_status(directory) != RunStatus::missing) {
    throw Error(ErrorKind::run,
                fmt::format("{} is the directory of a single run", directory.string()),
                "choose another --out");
  }
  std::vector<PlannedRun> plan;
  std::size_t named = 0;
  for (const SweepRun& run : sweep.runs) {
    if (!is_chosen(run, flags.only)) {
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
                                              join(flags.only, " --only ")));
  }
  if (flags.order == "seed") {
    order_by_seed(sweep, plan);
  }
  return plan;
}

void refuse_foreign(const std::vector<PlannedRun>& plan, const fs::path& directory) {
  const auto found = std::ranges::find_if(plan, &PlannedRun::foreign);
  if (found != plan.end()) {
    throw Error(
        ErrorKind::run,
        fmt::format("{} was made from another experiment", (directory / found->run->id).string()),
        "choose another --out, or delete the directory to run it anew");
  }
}

// Runs what is not finished yet, a few at a time.
class SweepExecution {
 public:
  SweepExecution(const std::vector<PlannedRun>& plan, const fs::path& directory,
                 const SweepFlags& flags, const std::string& arithmetic)
      : directory_(directory),
        flags_(flags),
        arithmetic_(arithmetic),
        begun_(std::chrono::steady_clock::now()),
        chosen_(plan.size()) {
    for (const PlannedRun& planned : plan) {
      if (planned.status == RunStatus::finished) {
        ++skipped_;
      } else {
        waiting_.push_back(planned.run);
      }
    }
  }

  bool interrupted() const { return interrupted_ || late_; }
  std::size_t failures() const { return failures_.size(); }

  void execute(const std::atomic<bool>& stop) {
    while (!waiting_.empty() || !running_.empty()) {
      if (stop && !interrupted_) {
        interrupted_ = true;
        end_early();
      } else if (flags_.deadline > 0.0 && !late_ && seconds() > flags_.deadline) {
        late_ = true;
        end_early();
      }
      while (!waiting_.empty() && running_.size() < static_cast<std::size_t>(flags_.jobs)) {
        start(*waiting_.front());
        waiting_.pop_front();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      collect();
      show(false);
    }
    show(true);
  }

  // One after the other in this process: starting one takes longer than a small run.
  void execute_here(const Registry& registry, const std::atomic<bool>& stop) {
    Runtime runtime = flags_.runtime.runtime;
    runtime.trust_model = true;  // as in start()
    RunObserver silence;
    for (const SweepRun* run : waiting_) {
      const fs::path home = directory_ / run->id;
      late_ = flags_.deadline > 0.0 && seconds() > flags_.deadline;
      if (late_) {
        break;
      }
      try {
        const RunOutcome outcome =
            run_status(home) == RunStatus::missing
                ? start_run(run->experiment, registry, runtime, home, &stop, silence)
                : resume_run(home, registry, runtime, &stop, silence);
        if (outcome.interrupted) {
          interrupted_ = true;
          break;
        }
        finish(*run);
      } catch (const Error& error) {
        failures_.push_back(
            {run->id, fmt::format("(exit code {}): {}", exit_code(error.kind()), error.what())});
      }
    }
    show(true);
  }

  void report(const std::vector<PlannedRun>& plan) const {
    tell_failures();
    const std::size_t finished = skipped_ + finished_;
    if (interrupted_) {
      tell("stopped; continue with the same command\n");
    } else if (late_) {
      tell("the time is up; continue with the same command\n");
    }
    if (flags_.json) {
      Json list = Json::array();
      for (const PlannedRun& planned : plan) {
        const SweepRun& run = *planned.run;
        list.push_back({{"id", run.id},
                        {"row", run.row},
                        {"column", run.column},
                        {"seed", run.seed},
                        {"finished", run_status(directory_ / run.id) == RunStatus::finished}});
      }
      fmt::print("{}\n", list.dump(2));
    } else if (!flags_.runtime.quiet) {
      fmt::print("{} of {} runs finished ({} now, {} before){}; table: winnow table {}\n", finished,
                 chosen_, finished_, skipped_,
                 failures_.empty() ? "" : fmt::format(", {} failed", failures_.size()),
                 directory_.string());
    }
  }

 private:
  struct Child {
    const SweepRun* run;
    pid_t pid;
  };
  struct Failure {
    std::string run;
    std::string words;
  };

  // A data set that is missing stops every run with the same words: they are said once.
  void tell_failures() const {
    std::set<std::string> told;
    for (const Failure& failure : failures_) {
      if (told.insert(failure.words).second) {
        const auto more = std::ranges::count(failures_, failure.words, &Failure::words) - 1;
        tell(fmt::format("failed: {}{} {}\n", failure.run,
                         more > 0 ? fmt::format(" and {} more", more) : "", failure.words));
      }
    }
  }

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  }

  // The runs under way save themselves.
  void end_early() {
    waiting_.clear();
    for (const Child& child : running_) {
      ::kill(child.pid, SIGTERM);
    }
  }

  void start(const SweepRun& run) {
    const fs::path home = directory_ / run.id;
    std::vector<std::string> arguments;
    if (run_status(home) == RunStatus::missing) {
      const fs::path file = directory_ / "experiments" / (run.id + ".toml");
      write_file_whole(file, write_toml(run.experiment.resolved()));
      arguments = {"run", file.string(), "--out", home.string()};
    } else {
      // Its experiment is the one that the user's file makes: refuse_foreign() has compared them.
      arguments = {"resume", home.string(), "--trust-model"};
    }
    std::int64_t lanes = flags_.runtime.runtime.lanes;
    if (lanes == 0 && flags_.jobs > 1) {
      lanes = std::max<std::int64_t>(1, std::thread::hardware_concurrency() / flags_.jobs);
    }
    if (lanes > 0) {
      arguments.insert(arguments.end(), {"--lanes", std::to_string(lanes)});
    }
    arguments.insert(arguments.end(), {"--device", flags_.runtime.runtime.device, "--precision",
                                       flags_.runtime.runtime.precision, "--quiet"});
    if (!arithmetic_.empty()) {
      arguments.insert(arguments.end(), {"--arithmetic", arithmetic_});
    }
    running_.push_back({&run, start_child(arguments, log_of(run))});
  }

  void finish(const SweepRun& run) {
    ++finished_;
    if (flags_.slim) {
      slim_run(directory_ / run.id);
    }
  }

  void collect() {
    for (auto child = running_.begin(); child != running_.end();) {
      const std::optional<int> code = poll_child(child->pid);
      if (!code) {
        ++child;
        continue;
      }
      if (*code == 0) {
        finish(*child->run);
      } else if (*code != kExitInterrupted) {
        failures_.push_back({child->run->id, fmt::format("(exit code {}): {}", *code,
                                                         last_words(log_of(*child->run)))});
      }
      child = running_.erase(child);
    }
  }

  fs::path log_of(const SweepRun& run) const { return directory_ / "logs" / (run.id + ".log"); }

  // The whole sweep as one bar. Counting rounds reads files, so not at every turn.
  void show(bool last) {
    const auto now = std::chrono::steady_clock::now();
    if (flags_.runtime.quiet || (!last && now - shown_ < std::chrono::seconds(1))) {
      return;
    }
    shown_ = now;
    double active = 0.0;
    std::string names;
    for (const Child& child : running_) {
      const double share = share_done(directory_ / child.run->id);
      active += std::min(1.0, share);
      names += fmt::format("  {} {:.0f}%", child.run->id, 100.0 * share);
    }
    const double work = static_cast<double>(chosen_ - skipped_);
    const double done = static_cast<double>(finished_ + failures_.size()) + active;
    const double share = work > 0 ? done / work : 1.0;
    const std::string left =
        share > 0.01 ? human_seconds(seconds() / share * (1.0 - share)) + " left" : "";
    const std::string text = fmt::format("{} {}/{} runs  {}{}", bar(share, 20),
                                         skipped_ + finished_, chosen_, left, names);
    if (stderr_is_terminal()) {
      tell(fmt::format("\r\033[K{}{}",
                       text.substr(0, static_cast<std::size_t>(terminal_width() - 1)),
                       last ? "\n" : ""));
    } else if (text != last_text_ && (last || now - logged_ > std::chrono::seconds(10))) {
      tell(fmt::format("{}\n", text));
      last_text_ = text;
      logged_ = now;
    }
  }

  fs::path directory_;
  const SweepFlags& flags_;
  std::string arithmetic_;  // where it was asked for; else the environment hands it on
  std::chrono::steady_clock::time_point begun_, shown_, logged_;
  std::string last_text_;
  std::list<const SweepRun*> waiting_;
  std::list<Child> running_;
  std::vector<Failure> failures_;
  std::size_t chosen_ = 0;
  std::size_t skipped_ = 0;
  std::size_t finished_ = 0;
  bool interrupted_ = false;
  bool late_ = false;
};

std::string plan_text(const PlannedRun& planned) {
  if (planned.foreign) {
    return "was made from another experiment";
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

void print_plan(const std::vector<PlannedRun>& plan, bool json) {
  std::vector<std::vector<std::string>> rows{{"run", "row", "column", "seed", "plan"}};
  Json list = Json::array();
  for (const PlannedRun& planned : plan) {
    const SweepRun& run = *planned.run;
    rows.push_back({run.id, run.row, run.column, std::to_string(run.seed), plan_text(planned)});
    list.push_back({{"id", run.id},
                    {"row", run.row},
                    {"column", run.column},
                    {"seed", run.seed},
                    {"cell", run.cell},
                    {"plan", plan_text(planned)}});
  }
  fmt::print("{}", json ? list.dump(2) + "\n" : columns(rows, 400));
}

// The table would find out only when all runs are done.
void check_paper_metric(const Sweep& sweep) {
  if (sweep.paper.is_null()) {
    return;
  }
  for (const std::string& metric : paper_metrics(sweep.paper)) {
    if (!cost_target(metric) && std::ranges::count(table_metrics(), metric) == 0) {
      throw Error(ErrorKind::experiment,
                  fmt::format("paper.metric = \"{}\": unknown metric", metric),
                  suggestion(metric, table_metrics()));
    }
  }
}

// The runs themselves are quiet, and many say the same.
void tell_rounds(const Sweep& sweep, const std::vector<std::string>& only,
                 const Registry& registry) {
  std::set<std::string> told;
  for (const SweepRun& run : sweep.runs) {
    const std::string notice = rounds_notice(run.experiment, registry);
    if (!notice.empty() && is_chosen(run, only) && told.insert(notice).second) {
      tell(notice + "\n");
    }
  }
}

void sweep(const SweepFlags& flags, Program& program) {
  const Scale scale = flags.scale == "smoke" ? Scale::smoke : Scale::full;
  const Sweep sweep = load_sweep(flags.file, flags.overrides.overrides(), program.registry, scale);
  check_paper_metric(sweep);
  const fs::path directory =
      flags.out.empty() ? fs::path("runs") / sweep.name : fs::path(flags.out);
  const std::vector<PlannedRun> plan = make_plan(sweep, directory, flags, program.registry);
  if (flags.dry_run) {
    print_plan(plan, flags.json);
  }
  refuse_foreign(plan, directory);
  if (flags.dry_run) {
    return;
  }
  SweepExecution execution(plan, directory, flags, program.arithmetic);
  refuse_links(directory, {"experiments", "logs"});
  std::error_code failed;
  fs::create_directories(directory, failed);
  const DirectoryLock lock(directory,
                           fmt::format("another sweep is at work in {}", directory.string()));
  fs::create_directories(directory / "experiments", failed);
  fs::create_directories(directory / "logs", failed);
  write_sweep_index(directory, sweep);
  if (!flags.runtime.quiet) {
    tell_rounds(sweep, flags.only, program.registry);
  }
  if (scale == Scale::smoke) {
    execution.execute_here(program.registry, stop_on_signals());
  } else {
    execution.execute(stop_on_signals());
  }
  execution.report(plan);
  program.exit_code = execution.interrupted()     ? kExitInterrupted
                      : execution.failures() != 0 ? kExitSweepFailed
                                                  : 0;
}

}  // namespace

void add_sweep_command(CLI::App& app, Program& program) {
  auto flags = std::make_shared<SweepFlags>();
  CLI::App* command = app.add_subcommand("sweep", "run a grid of experiments from one file");
  command->add_option("FILE", flags->file, "experiment in TOML with a [grid]")->required();
  command->add_option("-o,--out", flags->out, "directory of all runs (default: runs/NAME)");
  command->add_option("-j,--jobs", flags->jobs, "runs at the same time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--only", flags->only,
                   "only runs with this text in their name; given several times: with all of "
                   "them")
      ->allow_extra_args(false);
  command
      ->add_option("--order", flags->order,
                   "file: as the file has them; seed: one seed of every cell before the next seed")
      ->check(CLI::IsMember({"file", "seed"}))
      ->capture_default_str();
  command
      ->add_option("--scale", flags->scale,
                   "smoke: a small form of every row and column on generated data, in seconds")
      ->check(CLI::IsMember({"full", "smoke"}))
      ->capture_default_str();
  command
      ->add_option("--deadline", flags->deadline,
                   "stop after this many seconds; the same command continues")
      ->check(CLI::PositiveNumber);
  command->add_option("--done", flags->done,
                      "leave out the runs whose results are in this file (table --format runs)");
  command->add_flag("--slim", flags->slim,
                    "keep the log and the results of a finished run, no models and no ledger");
  command->add_flag("--dry-run", flags->dry_run,
                    "say what would be done with each run, and do nothing");
  command->add_flag("--json", flags->json, "print the list of runs as JSON");
  flags->runtime.add_to(*command);
  flags->overrides.add_to(*command);
  command->footer(
      "Finished runs are skipped, stopped and failed ones continue: give the same command again.\n"
      "Example:  winnow sweep experiments/quickstart.toml --jobs 2 && winnow table "
      "runs/quickstart");
  command->callback([flags, &program] { sweep(*flags, program); });
}

}  // namespace winnow
