#include "winnow/base/ordered_pool.h"

#include <algorithm>

namespace winnow {

OrderedPool::OrderedPool(std::size_t workers) {
  for (std::size_t worker = 0; worker < std::max<std::size_t>(1, workers); ++worker) {
    threads_.emplace_back([this, worker] { serve(worker); });
  }
}

OrderedPool::~OrderedPool() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  to_workers_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

bool OrderedPool::can_start(std::size_t worker) const {
  return worker < active_ && work_ != nullptr && !stop_starting_ && next_ < items_ &&
         next_ < folded_ + window();
}

void OrderedPool::serve(std::size_t worker) {
  std::unique_lock lock(mutex_);
  for (;;) {
    to_workers_.wait(lock, [&] { return closing_ || can_start(worker); });
    if (closing_) {
      return;
    }
    const std::size_t item = next_++;
    const Work* work = work_;
    ++running_;
    lock.unlock();
    std::exception_ptr error;
    try {
      (*work)(worker, item);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --running_;
    status_[item] = error ? Status::failed : Status::done;
    errors_[item] = error;
    stop_starting_ = stop_starting_ || error;
    to_caller_.notify_one();
  }
}

void OrderedPool::run(std::size_t items, const Work& work, const Fold& fold, std::size_t workers) {
  std::unique_lock lock(mutex_);
  items_ = items;
  active_ = workers > 0 ? workers : threads_.size();
  next_ = folded_ = 0;
  stop_starting_ = false;
  status_.assign(items, Status::waiting);
  errors_.assign(items, nullptr);
  work_ = &work;
  to_workers_.notify_all();

  std::exception_ptr error;
  while (folded_ < items && !error) {
    const std::size_t item = folded_;
    to_caller_.wait(lock, [&] {
      return status_[item] != Status::waiting || (stop_starting_ && next_ <= item && running_ == 0);
    });
    if (status_[item] != Status::done) {
      error = errors_[item];
      break;
    }
    lock.unlock();
    try {
      fold(item);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    const bool was_full = next_ == folded_ + window();
    ++folded_;
    if (was_full) {  // otherwise nobody waits for the fold
      to_workers_.notify_all();
    }
  }
  stop_starting_ = true;
  to_caller_.wait(lock, [&] { return running_ == 0; });
  work_ = nullptr;
  if (error) {
    std::rethrow_exception(error);
  }
}

}  // namespace winnow
