// The command line. A program with methods of its own calls run_program with its own registry.
#pragma once

#include "winnow/method/method.h"

namespace winnow {

// Parses the arguments, runs one command and returns the program's exit code. Errors are printed
// here, once: "winnow: message" and, on a line of its own, the hint.
int run_program(int argc, const char* const* argv, const Registry& registry);

}  // namespace winnow
