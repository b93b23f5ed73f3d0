// `winnow run` and `winnow resume`.
#include <fmt/format.h>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/cli/arithmetic_choice.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/cli/progress.h"
#include "winnow/cli/signals.h"
#include "winnow/run/runner.h"

namespace winnow {
namespace {

// "-" where it was not measured.
std::string accuracy_text(const Json& share) {
  return share.is_number() ? fmt::format("{:.4f}", share.get<double>()) : "-";
}

void print_summary(const Json& summary, const std::filesystem::path& directory) {
  const bool colour = use_colour();
  const double bytes =
      summary.at("bytes_up").get<double>() + summary.at("bytes_down").get<double>();
  fmt::print("{}\n", bold(fmt::format("{}: {}, seed {}", summary.at("name").get<std::string>(),
                                      summary.at("method").get<std::string>(),
                                      summary.at("seed").get<std::uint64_t>()),
                          colour));
  fmt::print(
      "{}", columns({{"  best", fmt::format("{:.4f}", summary.at("best").get<double>())},
                     {"  last", fmt::format("{:.4f}", summary.at("last").get<double>())},
                     {"  last10", accuracy_text(summary.at("last10"))},
                     {"  participations", summary.at("participations").dump()},
                     {"  bytes", human_bytes(bytes)},
                     {"  seconds", fmt::format("{:.1f}", summary.at("wall_seconds").get<double>())},
                     {"  arithmetic",
                      fmt::format("{}, fingerprint {}", summary.value("arithmetic", "unknown"),
                                  summary.value("fingerprint", "unknown"))},
                     {"  model", summary.at("model_hash").get<std::string>().substr(0, 16)},
                     {"  directory", directory.string()}},
                    200));
}

// Prints the outcome and sets the exit code.
void conclude(const RunOutcome& outcome, const std::filesystem::path& directory, bool json,
              bool quiet, Program& program) {
  if (outcome.interrupted) {
    tell(fmt::format("stopped after round {}; continue with: winnow resume {}\n",
                     outcome.rounds_done, directory.string()));
    program.exit_code = kExitInterrupted;
  } else if (json) {
    fmt::print("{}\n", outcome.summary.dump(2));
  } else if (!quiet) {
    print_summary(outcome.summary, directory);
  }
}

}  // namespace

void add_run_command(CLI::App& app, Program& program) {
  struct Flags {
    std::string file;
    std::string out;
    bool json = false;
    RuntimeFlags runtime;
    OverrideFlags overrides;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("run", "run an experiment");
  command->add_option("FILE", flags->file, "experiment in TOML")->required();
  command->add_option("-o,--out", flags->out, "run directory (default: runs/NAME)");
  command->add_flag("--json", flags->json, "print the summary as JSON");
  flags->runtime.add_to(*command);
  flags->overrides.add_to(*command);
  command->footer(
      "Example:  winnow run experiments/synthetic.toml --set train.lr=0.03 --seed 2 --out "
      "runs/try");
  command->callback([flags, &program] {
    const Experiment experiment =
        load_experiment(flags->file, flags->overrides.overrides(), program.registry);
    const std::filesystem::path directory = flags->out.empty()
                                                ? std::filesystem::path("runs") / experiment.name
                                                : std::filesystem::path(flags->out);
    Progress progress;
    RunObserver silence;
    const bool quiet = flags->runtime.quiet;
    const RunOutcome outcome = start_run(experiment, program.registry, flags->runtime.runtime,
                                         directory, &stop_on_signals(), quiet ? silence : progress);
    conclude(outcome, directory, flags->json, quiet, program);
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
    if (read_summary(flags->directory).is_null()) {
      follow_arithmetic(flags->directory, program);
    }
    Progress progress;
    RunObserver silence;
    const bool quiet = flags->runtime.quiet;
    const RunOutcome outcome =
        resume_run(flags->directory, program.registry, flags->runtime.runtime, &stop_on_signals(),
                   quiet ? silence : progress);
    conclude(outcome, flags->directory, flags->json, quiet, program);
  });
}

}  // namespace winnow
