// `winnow sweep`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/cli/progress.h"
#include "winnow/cli/signals.h"
#include "winnow/report/table.h"
#include "winnow/run/directory_lock.h"
#include "winnow/run/notices.h"
#include "winnow/sweep/execution.h"
#include "winnow/sweep/paper.h"
#include "winnow/sweep/sweep_index.h"

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
  bool force = false;
  bool dry_run = false;
  bool json = false;
  RuntimeFlags runtime;
  OverrideFlags overrides;
};

// The whole sweep as one bar.
class SweepBar final : public SweepObserver {
 public:
  SweepBar(const fs::path& directory, bool quiet) : directory_(directory), quiet_(quiet) {}

  // Counting rounds reads files, so not at every turn.
  void progress(const SweepProgress& progress, bool last) override {
    const auto now = std::chrono::steady_clock::now();
    if (quiet_ || (!last && now - shown_ < std::chrono::seconds(1))) {
      return;
    }
    shown_ = now;
    double active = 0.0;
    std::string names;
    for (const SweepRun* run : progress.running) {
      const double share = share_done(directory_ / run->id);
      active += std::min(1.0, share);
      names += fmt::format("  {} {:.0f}%", run->id, 100.0 * share);
    }
    const double work = static_cast<double>(progress.chosen - progress.skipped);
    const double done = static_cast<double>(progress.finished + progress.failed) + active;
    const double share = work > 0 ? done / work : 1.0;
    const std::string left =
        share > 0.01 ? human_seconds(progress.seconds / share * (1.0 - share)) + " left" : "";
    const std::string text =
        fmt::format("{} {}/{} runs  {}{}", bar(share, 20), progress.skipped + progress.finished,
                    progress.chosen, left, names);
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

 private:
  fs::path directory_;
  bool quiet_;
  std::chrono::steady_clock::time_point shown_, logged_;
  std::string last_text_;
};

// A data set that is missing stops every run with the same words: they are said once.
void tell_failures(const std::vector<SweepExecution::Failure>& failures) {
  std::set<std::string> told;
  for (const SweepExecution::Failure& failure : failures) {
    if (told.insert(failure.words).second) {
      const auto more =
          std::ranges::count(failures, failure.words, &SweepExecution::Failure::words) - 1;
      tell(fmt::format("failed: {}{} {}\n", failure.run,
                       more > 0 ? fmt::format(" and {} more", more) : "", failure.words));
    }
  }
}

void report_sweep(const SweepExecution& execution, const std::vector<PlannedRun>& plan,
                  const fs::path& directory, bool json) {
  tell_failures(execution.failures());
  if (execution.stopped()) {
    tell("stopped; run the same command again to continue\n");
  } else if (execution.late()) {
    tell("the deadline has passed; run the same command again to continue\n");
  }
  if (json) {
    Json list = Json::array();
    for (const PlannedRun& planned : plan) {
      const SweepRun& run = *planned.run;
      list.push_back({{"id", run.id},
                      {"row", run.row},
                      {"column", run.column},
                      {"seed", run.seed},
                      {"finished", run_status(directory / run.id) == RunStatus::finished}});
    }
    fmt::print("{}\n", list.dump(2));
    return;
  }
  const SweepProgress progress = execution.progress();
  fmt::print(
      "{} of {} runs finished ({} now, {} before){}; table: winnow table {}\n",
      progress.skipped + progress.finished, progress.chosen, progress.finished, progress.skipped,
      progress.failed == 0 ? "" : fmt::format(", {} failed", progress.failed), directory.string());
}

void print_plan(const std::vector<PlannedRun>& plan, const SweepFlags& flags) {
  std::vector<std::vector<std::string>> rows{{"run", "row", "column", "seed", "plan"}};
  Json list = Json::array();
  for (const PlannedRun& planned : plan) {
    const SweepRun& run = *planned.run;
    rows.push_back(
        {run.id, run.row, run.column, std::to_string(run.seed), plan_text(planned, flags.force)});
    list.push_back({{"id", run.id},
                    {"row", run.row},
                    {"column", run.column},
                    {"seed", run.seed},
                    {"cell", run.cell},
                    {"plan", plan_text(planned, flags.force)}});
  }
  fmt::print("{}", flags.json ? list.dump(2) + "\n" : columns(rows, 400));
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

// The runs themselves are quiet, and many say the same. A key of [train] may be meant for some of
// the runs only.
void tell_notices(const Sweep& sweep, const std::vector<std::string>& only,
                  const Registry& registry) {
  std::set<std::string> told;
  std::map<std::string, std::int64_t> of_training;
  std::int64_t chosen = 0;
  for (const SweepRun& run : sweep.runs) {
    if (!is_chosen(run, only)) {
      continue;
    }
    ++chosen;
    const std::string notice = rounds_notice(run.experiment, registry);
    if (!notice.empty() && told.insert(notice).second) {
      tell(notice + "\n");
    }
    for (const std::string& each : train_notices(run.experiment)) {
      ++of_training[each];
    }
  }
  for (const auto& [notice, runs] : of_training) {
    tell(runs == chosen ? notice + "\n"
                        : fmt::format("{} (in {} of {} runs)\n", notice, runs, chosen));
  }
}

void sweep(const SweepFlags& flags, Program& program) {
  const Scale scale = flags.scale == "smoke" ? Scale::smoke : Scale::full;
  const Sweep sweep = load_sweep(flags.file, flags.overrides.overrides(), program.registry, scale);
  check_paper_metric(sweep);
  const fs::path directory =
      flags.out.empty() ? fs::path("runs") / sweep.name : fs::path(flags.out);
  const std::vector<PlannedRun> plan = plan_sweep(
      sweep, directory, {.only = flags.only, .by_seed = flags.order == "seed", .done = flags.done},
      program.registry);
  if (flags.dry_run) {
    print_plan(plan, flags);
  }
  if (!flags.force) {
    refuse_foreign(plan, directory);
  }
  if (flags.dry_run) {
    return;
  }
  SweepBar bar(directory, flags.runtime.quiet);
  SweepExecution execution(plan, directory,
                           {.jobs = flags.jobs,
                            .deadline = flags.deadline,
                            .slim = flags.slim,
                            .runtime = flags.runtime.runtime,
                            .arithmetic = program.arithmetic},
                           bar);
  refuse_links(directory, {"experiments", "logs"});
  std::error_code failed;
  fs::create_directories(directory, failed);
  const DirectoryLock lock(directory,
                           fmt::format("another sweep is running in {}", directory.string()));
  fs::create_directories(directory / "experiments", failed);
  fs::create_directories(directory / "logs", failed);
  write_sweep_index(directory, sweep);
  if (!flags.runtime.quiet) {
    tell_notices(sweep, flags.only, program.registry);
  }
  if (scale == Scale::smoke) {
    execution.execute_here(program.registry, stop_on_signals());
  } else {
    execution.execute(stop_on_signals());
  }
  report_sweep(execution, plan, directory, flags.json);
  program.exit_code = execution.stopped() || execution.late() ? kExitInterrupted
                      : !execution.failures().empty()         ? kExitSweepFailed
                                                              : 0;
}

}  // namespace

void add_sweep_command(CLI::App& app, Program& program) {
  auto flags = std::make_shared<SweepFlags>();
  CLI::App* command = app.add_subcommand("sweep", "run a grid of experiments from one file");
  command
      ->add_option("FILE", flags->file,
                   "sweep file: an experiment with a [grid], [[row]] or [[column]]")
      ->required();
  command->add_option("-o,--out", flags->out, "directory of all runs (default: runs/NAME)")
      ->type_name("DIR");
  command->add_option("-j,--jobs", flags->jobs, "runs to execute at the same time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--only", flags->only,
                   "only runs whose names contain this text, or begin with it if written ^TEXT; if "
                   "given several times, all of the texts must match")
      ->allow_extra_args(false);
  command
      ->add_option("--order", flags->order,
                   "order of the runs: as in the file (file), or one seed of every cell before the "
                   "next seed (seed)")
      ->check(CLI::IsMember({"file", "seed"}))
      ->capture_default_str();
  command
      ->add_option("--scale", flags->scale,
                   "smoke: try every row and column in seconds, as small runs on generated data")
      ->check(CLI::IsMember({"full", "smoke"}))
      ->capture_default_str();
  command
      ->add_option("--deadline", flags->deadline,
                   "stop after this many seconds; run the same command again to continue")
      ->type_name("SECONDS")
      ->check(above_zero());
  command
      ->add_option("--done", flags->done,
                   "skip runs whose results are in this file (made with table --format runs)")
      ->type_name("FILE");
  command->add_flag(
      "--slim", flags->slim,
      "keep the log and the results of finished runs, but not their models and ledgers");
  command->add_flag("--force", flags->force,
                    "replace runs that were made from a different experiment");
  command->add_flag("--dry-run", flags->dry_run,
                    "print what would be done with each run, without doing it");
  command->add_flag("--json", flags->json, "print the list of runs as JSON");
  flags->runtime.add_to(*command);
  flags->overrides.add_to(*command);
  command->footer(
      "To continue a sweep, run the same command again: finished runs are skipped, others "
      "continue.\n"
      "Example:  winnow sweep experiments/quickstart.toml --jobs 2 && winnow table "
      "runs/quickstart");
  command->callback([flags, &program] { sweep(*flags, program); });
}

}  // namespace winnow
