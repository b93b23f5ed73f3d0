#include "calling_thread.h"

#include <chrono>
#include <exception>
#include <thread>

#include "winnow/engine/threads.h"
#include "winnow/train/lane.h"

namespace winnow::python {
namespace {

namespace py = pybind11;

constexpr std::chrono::milliseconds kBetweenLooks(50);

}  // namespace

void CallingThread::run(const std::function<void()>& work) {
  std::exception_ptr failure;
  {
    const py::gil_scoped_release free;
    std::thread worker([&] {
      const OperationSettings before = operation_settings();
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      use(before);
      const std::lock_guard lock(mutex_);
      done_ = true;
      changed_.notify_all();
    });
    for (;;) {
      const std::function<void()>* task = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kBetweenLooks, [&] { return done_ || task_ != nullptr; });
        if (done_) {
          break;
        }
        task = task_;
      }
      const py::gil_scoped_acquire held;
      if (task != nullptr) {
        serve(*task);
      }
      look_for_signals();
    }
    worker.join();
  }
  if (raised_) {
    throw *raised_;
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

void CallingThread::call(const std::function<void()>& task) {
  std::unique_lock lock(mutex_);
  task_ = &task;
  failure_ = nullptr;
  changed_.notify_all();
  changed_.wait(lock, [&] { return task_ == nullptr; });
  if (failure_) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void CallingThread::serve(const std::function<void()>& task) {
  std::exception_ptr failure;
  try {
    task();
  } catch (const py::error_already_set& error) {
    if (error.matches(PyExc_KeyboardInterrupt)) {
      raised_ = error;
      stop_ = true;
      failure = std::make_exception_ptr(Interrupted());
    } else {
      failure = std::current_exception();
    }
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  failure_ = failure;
  task_ = nullptr;
  changed_.notify_all();
}

void CallingThread::look_for_signals() {
  if (PyErr_CheckSignals() != 0) {
    raised_.emplace();
    stop_ = true;
  }
}

}  // namespace winnow::python
