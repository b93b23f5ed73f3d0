// Programs that stand beside this one and load what it must not.
#pragma once

#include <string>

#include "winnow/cli/command.h"

namespace winnow {

// Whether this program is `winnow` itself, and one of that name is in its folder.
bool has_sibling(const std::string& name);

// Goes on as the program of that name in the folder of this one, with the same arguments. Throws
// Error(kind usage), "WHAT: ... is not there", where there is none.
[[noreturn]] void become(const Program& program, const std::string& name, const std::string& what,
                         const std::string& hint);

}  // namespace winnow
