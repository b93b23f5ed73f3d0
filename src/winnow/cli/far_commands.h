// The commands of a real federation, which winnow-net has: they load gRPC, and nothing else may.
#pragma once

#include <string>

#include "winnow/cli/cli.h"
#include "winnow/cli/command.h"

namespace winnow {

// Lists them in the help of a program that does not have them.
void add_far_commands(CLI::App& app);
// Whether that is one of them and the program, with these commands of its own, does not have it.
bool is_far(const std::string& command, const Commands& commands);
// Goes on as winnow-net.
[[noreturn]] void become_net_program(const Program& program);
// The same where a program that only lists them is to tell of all options, and winnow-net is there;
// else it returns, and what the program itself knows must do.
void let_net_program_tell(const CLI::App& app, const Program& program);

}  // namespace winnow
