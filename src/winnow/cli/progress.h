// The live line of a run: a bar on a terminal, plain lines in a log.
#pragma once

#include <chrono>
#include <string>

#include "winnow/run/runner.h"

namespace winnow {

class Progress : public RunObserver {
 public:
  void started(const Session& session) override;
  void played(const Session& session, const Session::Played& played) override;
  void stopped() override;

 private:
  std::string line(const Session& session, const Session::Played& played) const;

  using Clock = std::chrono::steady_clock;
  bool terminal_ = false;
  bool line_open_ = false;
  Clock::time_point begun_;
  Clock::time_point printed_;
  std::int64_t first_round_ = 0;  // rounds that were done before this process
  std::int64_t first_participations_ = 0;
  double best_ = 0.0;
  double accuracy_ = 0.0;
};

// "[######------]" with `width` places inside.
std::string bar(double share, int width);

}  // namespace winnow
