#include "winnow/net/join/pulse.h"

#include <chrono>

namespace winnow::member {

void Pulse::beat() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::duration<double>(seconds_),
                            [this] { return ending_; })) {
    waiting_ = true;
    lock.unlock();
    channel_.next(report_, [this](const Awaited& awaited) {
      const std::lock_guard guard(mutex_);
      if (awaited.assignment && awaited.assignment->has_finished()) {
        over_ = awaited.assignment;
      }
      waiting_ = false;
      changed_.notify_all();
    });
    lock.lock();
    changed_.wait(lock, [this] { return ending_ || !waiting_; });
    if (waiting_) {
      lock.unlock();
      channel_.cancel();
      lock.lock();
      changed_.wait(lock, [this] { return !waiting_; });
    }
  }
}

}  // namespace winnow::member
