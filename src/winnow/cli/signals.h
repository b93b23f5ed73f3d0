// SIGINT and SIGTERM: the first asks the run to save and stop, the second ends the program at once.
#pragma once

#include <atomic>

namespace winnow {

// Installs the handlers, once per program, and returns the flag they set.
const std::atomic<bool>& stop_on_signals();

}  // namespace winnow
