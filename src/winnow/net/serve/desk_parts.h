// What a desk is made of; for its own files only.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "winnow/net/serve/desk.h"

namespace winnow::net {

inline constexpr std::uint64_t kMostCounted = std::uint64_t{1} << 40;
// How long a wait goes on before it looks at `stop` and at the clock again.
inline constexpr std::chrono::milliseconds kGlanceOfDesk{50};

// What a member says of itself, fit for a line of a log.
std::string short_word(const std::string& text);

void set_refusal(v1::Refusal& refusal, v1::Reason reason, const std::string& detail,
                 bool try_again);

// Thrown and caught inside the desk: why the peer gets nothing.
struct Desk::Refused {
  v1::Reason reason = v1::NOT_NOW;
  std::string detail;
  bool try_again = false;
  bool decides = false;  // the order gets no further chance
};

// One model of a reply that is coming in.
struct Desk::Part {
  std::string digest;
  std::string layout;
  std::int64_t bytes = 0;
  std::unique_ptr<IncomingModel> incoming = {};  // null: the server holds it
};

// A reply on its way in; a member has one at a time.
struct Desk::Delivery {
  std::int64_t order = 0;
  std::string digest;
  v1::Opening opening;
  std::string first_model;  // digest of what the first model field refers to, or empty
  std::vector<Part> parts = {};
  bool busy = false;  // a call is at work on it without the lock
};

struct Desk::Poll {
  Answer answer;
  std::int64_t since = 0;
  std::uint64_t working_on = 0;
  std::uint64_t settled_up_to = 0;
};

struct Desk::Member {
  MemberRow row;
  std::string process = {};                 // that speaks for it
  std::deque<std::string> superseded = {};  // that did before
  std::optional<std::int64_t> heard = {};   // when, in this process
  std::int64_t expires = 0;
  std::optional<Poll> poll = {};
  std::shared_ptr<Delivery> delivery = {};
  std::int64_t refusals = 0;  // in this process

  bool gone() const {
    return row.status == MemberStatus::left || row.status == MemberStatus::revoked;
  }
};

// An order while the desk knows it.
struct Desk::Live {
  OrderRow row;
  std::optional<v1::Task> task = {};  // nothing: the round has not come to it in this process
  std::int64_t handed_out = -1;       // when
  bool refused_once = false;          // a reply came, and may come again
};

// Holds the lock. What has become ready is answered when it goes, without the lock.
class Desk::Visit {
 public:
  explicit Visit(Desk& desk) : desk_(desk), lock_(desk.mutex_) {}
  ~Visit() {
    std::vector<std::pair<Answer, v1::Assignment>> ready = std::move(desk_.ready_);
    desk_.ready_.clear();
    lock_.unlock();
    for (auto& [answer, assignment] : ready) {
      answer(std::move(assignment));
    }
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  std::unique_lock<std::mutex>& lock() { return lock_; }

 private:
  Desk& desk_;
  std::unique_lock<std::mutex> lock_;
};

// Gives the lock away for a while.
class Desk::Unlocked {
 public:
  explicit Unlocked(Visit& visit) : lock_(visit.lock()) { lock_.unlock(); }
  ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  std::unique_lock<std::mutex>& lock_;
};

// Marks a delivery as one that a call is at work on. Changed with the lock only.
class Desk::Busy {
 public:
  explicit Busy(Delivery& delivery) : delivery_(delivery) { delivery_.busy = true; }
  ~Busy() { delivery_.busy = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  Delivery& delivery_;
};

}  // namespace winnow::net
