// Python belongs to the thread that called us; the library works on another one meanwhile.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

namespace winnow::python {

// One piece of work of the library, seen from Python. While it goes on, the calling thread waits
// without the GIL, executes what the work has to ask of Python, and looks for signals a few times a
// second. So lanes never touch Python, a rule written in Python runs where its user expects it, and
// Ctrl-C is noticed within a training step.
class CallingThread {
 public:
  // Called with the GIL. Whatever `work` throws is thrown here when it has ended. Where a signal
  // handler raised, stop() is set, and its exception is thrown once the work has ended.
  void run(const std::function<void()>& work);

  // For the work: executes `task` on the calling thread with the GIL, and waits for it. What it
  // throws is thrown here, but a KeyboardInterrupt: that is a wish to stop, and Interrupted.
  void call(const std::function<void()>& task);

  const std::atomic<bool>& stop() const { return stop_; }

 private:
  void serve(const std::function<void()>& task);
  void look_for_signals();

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* task_ = nullptr;  // waits to be executed
  std::exception_ptr failure_;                   // of the task
  bool done_ = false;                            // the work has ended
  std::atomic<bool> stop_ = false;
  std::optional<pybind11::error_already_set> raised_;  // by a signal handler
};

}  // namespace winnow::python
