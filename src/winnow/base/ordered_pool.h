// A fixed set of worker threads that does numbered work and hands it back in order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace winnow {

// Items are started in order 0, 1, 2, ... by whichever worker is free; `fold` sees them in the same
// order on the caller's thread. A worker waits rather than run further ahead of the fold than a
// small window, so at most `window()` finished items are held at once. One run() at a time; the
// pool itself may be shared by several users on one thread.
class OrderedPool {
 public:
  using Work = std::function<void(std::size_t worker, std::size_t item)>;
  using Fold = std::function<void(std::size_t item)>;

  explicit OrderedPool(std::size_t workers);
  ~OrderedPool();
  OrderedPool(const OrderedPool&) = delete;
  OrderedPool& operator=(const OrderedPool&) = delete;

  std::size_t workers() const { return threads_.size(); }
  std::size_t window() const { return 2 * threads_.size(); }

  // Returns when all items are folded. If work or fold throws, no further item is started, the
  // workers come to rest, and the exception of the lowest item is rethrown.
  // With `workers` > 0 only that many of them work.
  void run(std::size_t items, const Work& work, const Fold& fold, std::size_t workers = 0);

 private:
  enum class Status : char { waiting, done, failed };

  void serve(std::size_t worker);
  bool can_start(std::size_t worker) const;

  std::mutex mutex_;
  std::condition_variable to_workers_;
  std::condition_variable to_caller_;
  const Work* work_ = nullptr;  // not null while a run is on
  std::size_t items_ = 0;
  std::size_t active_ = 0;   // workers that take part
  std::size_t next_ = 0;     // first item not started
  std::size_t folded_ = 0;   // items handed back
  std::size_t running_ = 0;  // items being worked on
  bool stop_starting_ = false;
  bool closing_ = false;
  std::vector<Status> status_;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;
};

}  // namespace winnow
