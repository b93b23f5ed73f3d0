// `--arithmetic` and what runs were computed with.
#pragma once

#include <filesystem>
#include <string>

#include "winnow/cli/command.h"

namespace winnow {

// Adopts what the words on the command line ask for, as far as they can be read before the program
// has started. Reports nothing: add_arithmetic_option's check does.
void guess_arithmetic(const char* const* argv);

// Adds the option to the program and to every command it has by now. Before a command that computes
// runs, the program adopts what was asked for.
void add_arithmetic_option(CLI::App& app, Program& program);

// Adopts the arithmetic that a run was computed with, if it is another one, and warns where the
// libraries are not the same. Throws Error(kind run) where another one was asked for on the command
// line, and where this CPU does not have it.
void follow_arithmetic(const std::filesystem::path& directory, const Program& program);

// What the program computes with unless told otherwise, and what else there is.
std::string arithmetic_text();

}  // namespace winnow
