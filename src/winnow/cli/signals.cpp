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

void fail_instead_of_dying() {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, nullptr);
  ::sigaction(SIGXFSZ, &ignore, nullptr);
}

const std::atomic<bool>& stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = request_stop;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // What was ignored when the program started stays so: that is how nohup works.
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
      ::sigaction(signal, &action, nullptr);
    }
  }
  return stop_requested;
}

}  // namespace winnow
