#include "winnow/cli/signals.h"

#include <time.h>
#include <unistd.h>
#include <csignal>
#include <cstdint>

#include "winnow/base/error.h"

namespace winnow {
namespace {

// A signal handler can reach nothing else, hence the globals of the program.
std::atomic<bool> stop_requested{false};
std::atomic<std::int64_t> stop_requested_at{0};
static_assert(std::atomic<bool>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

// `timeout` and batch systems send a signal to the program and to its process group, so it comes
// twice. Only a later one is somebody's second wish.
constexpr std::int64_t kSameWish = 500'000'000;  // nanoseconds

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

void request_stop(int /*signal*/) {
  std::int64_t first = 0;
  const std::int64_t present = now();
  if (!stop_requested_at.compare_exchange_strong(first, present) && present - first >= kSameWish) {
    ::_exit(kExitInterrupted);
  }
  stop_requested = true;
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
