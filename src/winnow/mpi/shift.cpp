#include "winnow/mpi/shift.h"

#include <utility>

#include "winnow/train/gpu/device.h"

namespace winnow {
namespace {

// Thrown inside to end a shift early.
struct Closing {};

}  // namespace

Shift::Shift(Crew& crew, std::size_t count, Work work)
    : crew_(crew), count_(count), work_(std::move(work)), begun_(std::chrono::steady_clock::now()) {
  wait_for(crew.device());  // for what this thread has asked it to do
  thread_ = std::thread([this] { run(); });
}

Shift::~Shift() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  to_crew_.notify_all();
  thread_.join();
}

void Shift::run() {
  std::exception_ptr error;
  const auto most = static_cast<std::size_t>(2 * crew_.lanes());
  try {
    crew_.run(count_, work_, [&](std::size_t item) {
      std::unique_lock lock(mutex_);
      to_crew_.wait(lock, [&] { return closing_ || done_.size() < most; });
      if (closing_) {
        throw Closing();
      }
      done_.push_back(item);
      to_taker_.notify_one();
    });
  } catch (const Closing&) {
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  error_ = error;
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  to_taker_.notify_one();
}

std::optional<std::size_t> Shift::next(std::chrono::microseconds wait) {
  std::unique_lock lock(mutex_);
  if (!to_taker_.wait_for(lock, wait, [&] { return !done_.empty() || error_; })) {
    return std::nullopt;
  }
  if (done_.empty()) {
    std::rethrow_exception(error_);
  }
  const std::size_t item = done_.front();
  done_.pop_front();
  to_crew_.notify_one();
  return item;
}

double Shift::seconds() {
  const std::lock_guard lock(mutex_);
  return seconds_.value_or(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count());
}

}  // namespace winnow
