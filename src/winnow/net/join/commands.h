// What this room adds to the command line.
#pragma once

#include "winnow/cli/command.h"

namespace winnow {

void add_join_command(CLI::App& app, Program& program);
void add_swarm_command(CLI::App& app, Program& program);
}  // namespace winnow
