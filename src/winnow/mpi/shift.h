// A shift: the lanes of this process at work, beside the thread that speaks with other ranks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "winnow/engine/crew.h"

namespace winnow {

// Does numbered pieces of work and hands them over in order. Lanes wait when a few finished pieces
// have not been taken.
class Shift {
 public:
  using Work = std::function<void(std::size_t worker, std::size_t item)>;

  Shift(Crew& crew, std::size_t count, Work work);
  // Starts nothing more, and waits for what has begun.
  ~Shift();
  Shift(const Shift&) = delete;
  Shift& operator=(const Shift&) = delete;

  // The next piece when it is done, waiting for it no longer than that; nothing when it is not.
  // Throws what the work threw.
  std::optional<std::size_t> next(std::chrono::microseconds wait);
  // How long it has been at work, or was.
  double seconds();

 private:
  void run();

  Crew& crew_;
  std::size_t count_;
  Work work_;
  std::mutex mutex_;
  std::condition_variable to_taker_;
  std::condition_variable to_crew_;
  std::deque<std::size_t> done_;
  std::exception_ptr error_;
  bool closing_ = false;
  std::chrono::steady_clock::time_point begun_;
  std::optional<double> seconds_;
  std::thread thread_;
};

}  // namespace winnow
