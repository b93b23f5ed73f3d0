// What this room adds to the command line.
#pragma once

#include "winnow/cli/command.h"

namespace winnow {

void add_pki_command(CLI::App& app, Program& program);

}  // namespace winnow
