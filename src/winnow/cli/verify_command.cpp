// `winnow verify`.
#include <fmt/format.h>

#include "winnow/base/error.h"
#include "winnow/cli/arithmetic_choice.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/cli/engine_choice.h"
#include "winnow/cli/signals.h"
#include "winnow/run/verify.h"

namespace winnow {
namespace {

void print_verification(const Verification& result, bool json) {
  if (json) {
    const Json report{
        {"compared", result.compared},
        {"differs_at", result.differs_at == 0 ? Json(nullptr) : Json(result.differs_at)},
        {"logged", result.logged},
        {"recomputed", result.recomputed}};
    fmt::print("{}\n", report.dump(2));
  } else if (result.differs_at == 0) {
    fmt::print("{} rounds verified, every model hash agrees\n", result.compared);
  } else {
    fmt::print("round {} differs\n  logged      {}\n  recomputed  {}\n", result.differs_at,
               result.logged, result.recomputed);
  }
}

}  // namespace

void add_verify_command(CLI::App& app, Program& program) {
  struct Flags {
    std::string directory;
    std::int64_t rounds = 0;
    bool json = false;
    RuntimeFlags runtime;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("verify", "repeat a run and compare the model hash of every round");
  command->add_option("DIR", flags->directory, "run directory")->required();
  command->add_option("--rounds", flags->rounds, "compare only the first N rounds")
      ->check(at_least(1));
  command->add_flag("--json", flags->json, "print the result as JSON");
  flags->runtime.add_to(*command);
  flags->runtime.add_trust_to(*command);
  command->footer("Example:  winnow verify runs/synthetic --rounds 5");
  command->callback([flags, &program] {
    follow_arithmetic(flags->directory, program);
    const std::atomic<bool>& stop = stop_on_signals();
    if (!leads(program, flags->runtime.runtime, &stop)) {
      return;
    }
    const bool live = !flags->runtime.quiet && stderr_is_terminal();
    try {
      const Verification result =
          verify_run(flags->directory, program.registry, flags->runtime.runtime, flags->rounds,
                     &stop, [live](std::int64_t round, std::int64_t total) {
                       if (live) {
                         tell(fmt::format("\r\033[Kround {}/{} agrees{}", round, total,
                                          round == total ? "\n" : ""));
                       }
                     });
      program.exit_code = result.differs_at == 0 ? 0 : kExitMismatch;
      print_verification(result, flags->json);
    } catch (const Interrupted&) {
      program.exit_code = kExitInterrupted;
    }
  });
}

}  // namespace winnow
