// The command line. A program with methods, data sets, networks, ... of its own calls run_program
// with its own registry.
#pragma once

#include <vector>

#include "winnow/experiment/registry.h"
#include "winnow/run/engines.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the parser's own name
class App;
}

namespace winnow {

struct Program;
using Commands = std::vector<void (*)(CLI::App& app, Program& program)>;

// Parses the arguments, runs one command and returns the program's exit code. Errors are printed
// here, once: "winnow: message" and, on a line of its own, the hint.
// `commands` add commands to those of every program.
int run_program(int argc, const char* const* argv, const Registry& registry,
                const Engines& engines = local_engines(), const Commands& commands = {});

}  // namespace winnow
