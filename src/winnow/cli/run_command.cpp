// `winnow run` and `winnow resume`.
#include <fmt/format.h>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/cli/arithmetic_choice.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/cli/engine_choice.h"
#include "winnow/cli/progress.h"
#include "winnow/cli/signals.h"
#include "winnow/run/runner.h"

namespace winnow {
namespace {

// "-" where it was not measured.
std::string accuracy_text(const Json& share) {
  return share.is_number() ? percent_text(share.get<double>()) : "-";
}

void print_summary(const Json& summary, const std::filesystem::path& directory) {
  const bool colour = use_colour();
  const double bytes =
      summary.at("bytes_up").get<double>() + summary.at("bytes_down").get<double>();
  fmt::print("{}\n", bold(fmt::format("{}: {}, seed {}", summary.at("name").get<std::string>(),
                                      summary.at("method").get<std::string>(),
                                      summary.at("seed").get<std::uint64_t>()),
                          colour));
  fmt::print("{}",
             columns({{"  best", accuracy_text(summary.at("best"))},
                      {"  last", accuracy_text(summary.at("last"))},
                      {"  last ten rounds", accuracy_text(summary.at("last10"))},
                      {"  participations", summary.at("participations").dump()},
                      {"  traffic", human_bytes(bytes)},
                      {"  wall time", human_seconds(summary.at("wall_seconds").get<double>())},
                      {"  arithmetic",
                       fmt::format("{}, fingerprint {}", summary.value("arithmetic", "unknown"),
                                   summary.value("fingerprint", "unknown"))},
                      {"  model", summary.at("model_hash").get<std::string>().substr(0, 16)},
                      {"  directory", directory.string()}},
                     200));
}

// Prints the outcome and sets the exit code.
void conclude(const RunOutcome& outcome, const std::filesystem::path& directory, bool json,
              Program& program) {
  if (outcome.interrupted) {
    tell(fmt::format("stopped after round {}; continue with: winnow resume {}\n",
                     outcome.rounds_done, directory.string()));
    program.exit_code = kExitInterrupted;
  } else if (json) {
    fmt::print("{}\n", outcome.summary.dump(2));
  } else {
    print_summary(outcome.summary, directory);
  }
}

}  // namespace

void add_run_command(CLI::App& app, Program& program) {
  struct Flags {
    std::string file;
    std::string out;
    std::string absences;
    bool json = false;
    bool force = false;
    RuntimeFlags runtime;
    OverrideFlags overrides;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("run", "run an experiment");
  command->add_option("FILE", flags->file, "experiment file (TOML)")->required();
  command->add_option("-o,--out", flags->out, "run directory (default: runs/NAME)")
      ->type_name("DIR");
  command
      ->add_option("--absences", flags->absences,
                   "events.jsonl of another run: clients that did not answer there do not answer "
                   "here either (the same as --set federation.absences=FILE)")
      ->type_name("FILE");
  command->add_flag("--force", flags->force, "replace an existing run in the run directory");
  command->add_flag("--json", flags->json, "print the summary as JSON");
  flags->runtime.add_to(*command);
  flags->overrides.add_to(*command);
  command->footer(
      "Example:  winnow run experiments/synthetic.toml --set train.lr=0.03 --seed 2 --out "
      "runs/try");
  command->callback([flags, &program] {
    const std::atomic<bool>& stop = stop_on_signals();
    if (!leads(program, flags->runtime.runtime, &stop)) {
      return;
    }
    std::vector<Override> overrides = flags->overrides.overrides();
    if (!flags->absences.empty()) {
      overrides.push_back({"federation.absences", Json(flags->absences).dump()});
    }
    const Experiment experiment = load_experiment(flags->file, overrides, program.registry);
    const std::filesystem::path directory = flags->out.empty()
                                                ? std::filesystem::path("runs") / experiment.name
                                                : std::filesystem::path(flags->out);
    Progress progress;
    RunObserver silence;
    const bool quiet = flags->runtime.quiet;
    const RunOutcome outcome =
        start_run(experiment, program.registry, flags->runtime.runtime, directory, &stop,
                  quiet ? silence : progress, flags->force ? IfExists::replace : IfExists::refuse);
    conclude(outcome, directory, flags->json, program);
  });
}

void add_resume_command(CLI::App& app, Program& program) {
  struct Flags {
    std::string directory;
    bool json = false;
    RuntimeFlags runtime;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("resume", "continue a run that was stopped or killed");
  command->add_option("DIR", flags->directory, "run directory")->required();
  command->add_flag("--json", flags->json, "print the summary as JSON");
  flags->runtime.add_to(*command);
  flags->runtime.add_trust_to(*command);
  command->footer("Example:  winnow resume runs/synthetic");
  command->callback([flags, &program] {
    const bool quiet = flags->runtime.quiet;
    if (read_summary(flags->directory).is_null()) {
      follow_arithmetic(flags->directory, program);
    } else if (!quiet) {
      tell(fmt::format("{} is finished; this is its result\n", flags->directory));
    }
    const std::atomic<bool>& stop = stop_on_signals();
    if (!leads(program, flags->runtime.runtime, &stop)) {
      return;
    }
    Progress progress;
    RunObserver silence;
    const RunOutcome outcome =
        resume_run(flags->directory, program.registry, flags->runtime.runtime, &stop,
                   quiet ? silence : progress);
    conclude(outcome, flags->directory, flags->json, program);
  });
}

}  // namespace winnow
