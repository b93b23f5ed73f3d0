#include "winnow/net/join/part_flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "winnow/base/error.h"
#include "winnow/cli/console.h"
#include "winnow/cli/signals.h"
#include "winnow/train/lane.h"

namespace winnow::member {
namespace {

bool ask_person(const std::string& text) {
  fmt::print("{}", text);
  if (::isatty(STDIN_FILENO) == 0 || !stdout_is_terminal()) {
    return false;
  }
  fmt::print("Agree? [y/N] ");
  std::fflush(stdout);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace

void PartFlags::add_to(CLI::App& command) {
  command.add_option("--server", server, "address of the server, HOST:PORT")
      ->type_name("HOST:PORT")
      ->required();
  command
      .add_option("--state", state,
                  "folder for replies that are not sent yet and for what the method remembers "
                  "between tasks, which never leaves this machine")
      ->type_name("DIR");
  command
      .add_option(
          "--agree", agree,
          "agree to the charter that has this hash; needed once, and again if the charter changes")
      ->type_name("HASH");
  command.add_option("--lanes", lanes, "number of trainers that work in parallel")
      ->check(CLI::Range(1, 1024));
  command.add_option("--device", device, "cpu, cuda, cuda:N or auto")
      ->type_name("NAME")
      ->capture_default_str();
  command.add_flag("-q,--quiet", quiet, "print nothing but errors");
}

PartOptions PartFlags::options(const ServerAddress& address, std::int64_t usual_lanes) const {
  PartOptions options;
  options.server = address;
  options.agree = agree;
  options.ask = ask_person;
  if (!quiet) {
    options.say = [](const std::string& line) { tell(line + "\n"); };
  }
  options.runtime.lanes = lanes > 0 ? lanes : usual_lanes;
  options.runtime.device = device;
  options.stop = &stop_on_signals();
  return options;
}

void conclude_part(const PartFlags& flags, std::vector<Recruit> recruits,
                   const PartOptions& options, Program& program) {
  Outcome outcome;
  try {
    outcome = take_part(std::move(recruits), program.registry, options);
  } catch (const Interrupted&) {
    outcome.interrupted = true;
  }
  if (outcome.failed > 0) {
    program.exit_code = exit_code(ErrorKind::peer);
  } else if (outcome.interrupted) {
    program.exit_code = kExitInterrupted;
  }
  if (outcome.interrupted) {
    tell("stopped; run the same command again to continue\n");
  } else if (!flags.quiet) {
    fmt::print("finished: {} {} answered{}\n", outcome.answered,
               outcome.answered == 1 ? "task" : "tasks",
               outcome.model_hash.empty() ? "" : ", model " + outcome.model_hash.substr(0, 16));
  }
}

}  // namespace winnow::member
