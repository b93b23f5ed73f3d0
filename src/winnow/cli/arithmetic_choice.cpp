#include "winnow/cli/arithmetic_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "winnow/base/arithmetic.h"
#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/cli/console.h"
#include "winnow/cli/engine_choice.h"
#include "winnow/engine/fingerprint.h"
#include "winnow/run/runner.h"

namespace winnow {
namespace {

// The others only read files; starting LibTorch twice would be a waste.
bool computes(std::string_view command) {
  constexpr std::array<std::string_view, 13> kCommands{
      "run",   "resume", "verify", "sweep", "inspect", "deal", "aggregate",
      "bench", "audit",  "serve",  "join",  "swarm",   "chaos"};
  return std::ranges::count(kCommands, command) > 0;
}

// The arithmetic of a run by the name in its log.
Arithmetic recorded_arithmetic(const std::filesystem::path& directory, const std::string& name) {
  try {
    return parse_arithmetic(name);
  } catch (const Error&) {
    throw Error(ErrorKind::run,
                fmt::format("{} was computed with the arithmetic {}, which this CPU does not have",
                            directory.string(), name),
                "use a CPU that has it, or start a new run with 'winnow run'");
  }
}

}  // namespace

void guess_arithmetic(const char* const* argv) {
  constexpr std::string_view kOption = "--arithmetic";
  std::string_view command;
  std::string name;
  for (const char* const* word = argv + 1; argv[0] != nullptr && *word != nullptr; ++word) {
    const std::string_view text = *word;
    if (text == kOption && word[1] != nullptr) {
      name = *++word;
    } else if (text.starts_with(kOption) && text.substr(kOption.size()).starts_with('=')) {
      name = text.substr(kOption.size() + 1);
    } else if (command.empty() && !text.starts_with('-')) {
      command = text;
    }
  }
  if (computes(command)) {
    try {
      adopt_arithmetic(name.empty() ? default_arithmetic() : parse_arithmetic(name), argv);
    } catch (const Error&) {  // told once the program has started
    }
  }
}

void add_arithmetic_option(CLI::App& app, Program& program) {
  const auto add_to = [&program](CLI::App& command) {
    command
        .add_option("--arithmetic", program.arithmetic,
                    "CPU kernels: native (the best this CPU has), avx512, avx2 or baseline")
        ->type_name("NAME")
        ->expected(1);
  };
  add_to(app);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    add_to(*command);
  }
  app.parse_complete_callback([&app, &program] {
    find_engine(app.get_subcommands().front()->get_name(), program);
    const Arithmetic wanted =
        program.arithmetic.empty() ? default_arithmetic() : parse_arithmetic(program.arithmetic);
    if (computes(app.get_subcommands().front()->get_name())) {
      adopt_arithmetic(wanted, program.argv);
    }
  });
}

void follow_arithmetic(const std::filesystem::path& directory, const Program& program) {
  const auto recorded = read_computed_with(directory);
  if (!recorded) {
    return;
  }
  const std::string now = current_arithmetic();
  if (recorded->arithmetic != kUnnamedArithmetic && recorded->arithmetic != now) {
    if (!program.arithmetic.empty()) {
      throw Error(ErrorKind::run,
                  fmt::format("{} was computed with the arithmetic {}, not {}", directory.string(),
                              recorded->arithmetic, now),
                  "leave --arithmetic out, or start a new run with 'winnow run'");
    }
    const Arithmetic wanted = recorded_arithmetic(directory, recorded->arithmetic);
    tell(fmt::format("{} was computed with the {} kernels; continuing with them\n",
                     directory.string(), recorded->arithmetic));
    adopt_arithmetic(wanted, program.argv);
  }
  if (recorded->fingerprint != fingerprint()) {
    tell(
        fmt::format("warning: {} was computed with other versions of the libraries (fingerprint "
                    "{}, here {}): the bits may differ\n",
                    directory.string(), recorded->fingerprint, fingerprint()));
  }
}

std::string arithmetic_text() {
  std::vector<std::string> names;
  for (const Arithmetic arithmetic : all_arithmetics()) {
    if (cpu_has(arithmetic)) {
      names.push_back(arithmetic_name(arithmetic));
    }
  }
  return fmt::format("{} (this CPU has {})", arithmetic_name(default_arithmetic()),
                     join(names, ", "));
}

}  // namespace winnow
