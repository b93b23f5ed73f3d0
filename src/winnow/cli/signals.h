// SIGINT, SIGTERM and SIGHUP: the first asks the run to save and stop, a second, half a
// second later or more, ends the program at once.
#pragma once

#include <atomic>

namespace winnow {

// A reader that has gone away or a file that may not grow makes a write fail, which is dealt with
// where it happens; without this it would kill the program.
void fail_instead_of_dying();

// Installs the handlers, once per program, and returns the flag they set.
const std::atomic<bool>& stop_on_signals();

}  // namespace winnow
