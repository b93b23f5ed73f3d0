#include "winnow/net/join/drive.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/train/lane.h"

namespace winnow::member {
namespace {

using SteadyClock = std::chrono::steady_clock;
using SteadyTime = SteadyClock::time_point;

constexpr std::chrono::milliseconds kLook{50};  // how often a waiting thread looks whether to stop
constexpr double kAtOnce = 0.02;                // seconds; a server that lets wait takes longer

// One member between its turns.
struct Driven {
  Driven(Joiner* member, const Pace& pace) : joiner(member), patience(pace.first, pace.most) {}

  Joiner* joiner;
  Patience patience;
  bool joined = false;
  bool away = false;  // it was said that the server is
  SteadyTime asked = {};
  std::optional<Awaited> awaited;
  bool ended = false;
  Ending ending;
};

class Driver {
 public:
  Driver(const std::vector<Joiner*>& members, const std::atomic<bool>* stop,
         const std::function<void(const std::string&)>& say, const Pace& pace)
      : stop_(stop), say_(say), pace_(pace), chance_(std::random_device{}()) {
    for (Joiner* member : members) {
      due_.emplace(SteadyClock::now(), driven_.size());
      driven_.emplace_back(member, pace);
    }
  }

  std::vector<Ending> run(std::size_t threads) {
    std::vector<std::thread> pool;
    for (std::size_t i = 0; i < std::max<std::size_t>(1, threads); ++i) {
      pool.emplace_back([this] { work(); });
    }
    {
      std::unique_lock lock(mutex_);
      while (!over()) {
        changed_.wait_for(lock, kLook);
        if (stopped()) {
          end_waits(lock);
        }
      }
    }
    changed_.notify_all();
    for (std::thread& thread : pool) {
      thread.join();
    }
    std::vector<Ending> endings;
    for (Driven& driven : driven_) {
      endings.push_back(std::move(driven.ending));
    }
    return endings;
  }

 private:
  bool stopped() const { return stop_ != nullptr && stop_->load(); }
  bool over() const { return due_.empty() && waiting_.empty() && busy_ == 0; }

  // Nobody gets another turn, and nobody waits for the server any longer.
  void end_waits(std::unique_lock<std::mutex>& lock) {
    due_.clear();
    const std::set<std::size_t> waiting = waiting_;
    lock.unlock();
    for (const std::size_t number : waiting) {
      driven_[number].joiner->channel().cancel();
    }
    lock.lock();
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (!over()) {
      const auto first = due_.begin();
      if (first == due_.end() || first->first > SteadyClock::now()) {
        changed_.wait_for(lock, kLook);
        continue;
      }
      const std::size_t number = first->second;
      due_.erase(first);
      ++busy_;
      lock.unlock();
      turn(number);
      lock.lock();
      --busy_;
      changed_.notify_all();
    }
  }

  void turn(std::size_t number) {
    Driven& driven = driven_[number];
    try {
      if (const auto pause = take_awaited(driven)) {
        later(number, *pause);
        return;
      }
      if (!driven.ended) {
        ask(number, driven);
      }
    } catch (const Unreachable& error) {
      driven.joined = false;
      if (!driven.away && !stopped()) {
        driven.away = true;
        tell(driven, fmt::format("{}; trying again", error.what()));
      }
      later(number, wait_of(driven));
    } catch (const Interrupted&) {
      driven.ended = true;
    } catch (...) {
      driven.ended = true;
      driven.ending.failure = std::current_exception();
    }
  }

  // Deals with what the server has said; how long to wait before it is asked again, or nothing.
  std::optional<double> take_awaited(Driven& driven) {
    if (!driven.awaited) {
      return std::nullopt;
    }
    const Awaited awaited = std::move(*driven.awaited);
    driven.awaited.reset();
    if (awaited.failure) {
      std::rethrow_exception(awaited.failure);
    }
    const v1::Assignment& assignment = *awaited.assignment;
    const Joiner::Then then = driven.joiner->take(assignment);
    if (then == Joiner::Then::pause) {
      return wait_of(driven);
    }
    driven.patience.reset();
    if (driven.away) {
      driven.away = false;
      tell(driven, "the server is back");
    }
    if (then == Joiner::Then::finished) {
      driven.ended = true;
      driven.ending.finished = true;
      return std::nullopt;
    }
    const double seconds = std::chrono::duration<double>(SteadyClock::now() - driven.asked).count();
    return assignment.has_task() || seconds > kAtOnce ? std::nullopt : std::optional(pace_.idle);
  }

  void ask(std::size_t number, Driven& driven) {
    if (!driven.joined) {
      driven.joiner->join();
      driven.joined = true;
    }
    const v1::Report report = driven.joiner->report();
    driven.asked = SteadyClock::now();
    {
      const std::lock_guard lock(mutex_);
      waiting_.insert(number);
    }
    driven.joiner->channel().next(report, [this, number](Awaited awaited) {
      const std::lock_guard lock(mutex_);
      driven_[number].awaited = std::move(awaited);
      waiting_.erase(number);
      if (!stopped()) {
        due_.emplace(SteadyClock::now(), number);
      }
      changed_.notify_all();
    });
  }

  double wait_of(Driven& driven) {
    const std::lock_guard lock(mutex_);
    return driven.patience.wait(std::uniform_real_distribution<double>(0.0, 1.0)(chance_));
  }

  void later(std::size_t number, double seconds) {
    const std::lock_guard lock(mutex_);
    if (!stopped()) {
      due_.emplace(SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(
                                            std::chrono::duration<double>(seconds)),
                   number);
    }
  }

  void tell(const Driven& driven, const std::string& line) const {
    if (say_) {
      say_(fmt::format("{}: {}", driven.joiner->name(), line));
    }
  }

  const std::atomic<bool>* stop_;
  const std::function<void(const std::string&)>& say_;
  Pace pace_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::minstd_rand chance_;
  std::deque<Driven> driven_;
  std::multimap<SteadyTime, std::size_t> due_;
  std::set<std::size_t> waiting_;  // those that the server lets wait
  std::size_t busy_ = 0;           // threads at work
};

}  // namespace

std::vector<Ending> drive(const std::vector<Joiner*>& members, std::size_t threads,
                          const std::atomic<bool>* stop,
                          const std::function<void(const std::string& line)>& say,
                          const Pace& pace) {
  return Driver(members, stop, say, pace).run(threads);
}

}  // namespace winnow::member
