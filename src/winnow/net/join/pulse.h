// What a member says while it is busy.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "winnow/net/join/channel.h"

namespace winnow::member {

// Signs of life while a member trains. What the server answers to them it says again later, but for
// its last word: it may be gone by then.
class Pulse {
 public:
  Pulse(Channel& channel, v1::Report report, double seconds)
      : channel_(channel),
        report_(std::move(report)),
        seconds_(seconds),
        thread_([this] { beat(); }) {}
  ~Pulse() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  // The answer that it is all over, if it came.
  std::optional<v1::Assignment> over() {
    const std::lock_guard lock(mutex_);
    return over_;
  }

  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

 private:
  void beat();

  Channel& channel_;
  v1::Report report_;
  double seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  bool waiting_ = false;
  std::optional<v1::Assignment> over_;
  std::thread thread_;
};

}  // namespace winnow::member
