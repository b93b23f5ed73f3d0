#include "winnow/cli/signals.h"

#include <unistd.h>
#include <csignal>

#include "winnow/base/error.h"

namespace winnow {
namespace {

// A signal handler can reach nothing else, hence the one global of the program.
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void request_stop(int /*signal*/) {
  if (stop_requested.exchange(true)) {
    ::_exit(kExitInterrupted);
  }
}

}  // namespace

const std::atomic<bool>& stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = request_stop;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  return stop_requested;
}

}  // namespace winnow
