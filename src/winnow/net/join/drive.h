// Keeps members going: few threads for many of them, since waiting for the server holds none.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "winnow/net/join/joiner.h"

namespace winnow::member {

// Seconds between attempts at a server that is away: each wait is up to twice as long as the one
// before, by chance a little less, so that members do not come back all at once.
class Patience {
 public:
  Patience(double first, double most) : first_(first), most_(most), next_(first) {}

  void reset() { next_ = first_; }
  // `chance` is between 0 and 1.
  double wait(double chance) {
    const double now = next_;
    next_ = next_ * 2 < most_ ? next_ * 2 : most_;
    return now * (0.5 + 0.5 * chance);
  }

 private:
  double first_;
  double most_;
  double next_;
};

struct Pace {
  double first = 1.0;  // seconds of the first wait
  double most = 60.0;  // and of the longest
  double idle = 1.0;   // before asking a server again that does not let members wait
};

// How it ended for a member: finished, failed, or else interrupted.
struct Ending {
  bool finished = false;
  std::exception_ptr failure = nullptr;
};

// Returns when all members have ended. A member that fails does not hold up the others. `say` gets
// lines for a person, from any thread. `stop`, when set, ends all of them.
std::vector<Ending> drive(const std::vector<Joiner*>& members, std::size_t threads,
                          const std::atomic<bool>* stop,
                          const std::function<void(const std::string& line)>& say,
                          const Pace& pace = {});

}  // namespace winnow::member
