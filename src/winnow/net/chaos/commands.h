// The command of this room.
#pragma once

#include "winnow/cli/command.h"

namespace winnow {

void add_chaos_command(CLI::App& app, Program& program);

}  // namespace winnow
