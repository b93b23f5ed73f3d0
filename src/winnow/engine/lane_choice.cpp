#include "winnow/engine/lane_choice.h"

namespace winnow {
namespace {

constexpr std::int64_t kCalls = 3;    // the first two pay for capturing the steps
constexpr double kWorthwhile = 1.05;  // how much faster the next number must be

}  // namespace

void LaneChoice::note(std::int64_t steps, double seconds) {
  if (settled() || steps == 0 || seconds <= 0.0 || ++calls_ < kCalls) {
    return;
  }
  const double speed = static_cast<double>(steps) / seconds;
  calls_ = 0;
  if (speed < kWorthwhile * speed_before_) {
    --place_;
    settled_ = true;
  } else if (place_ + 1 == numbers_.size()) {
    settled_ = true;
  } else {
    speed_before_ = speed;
    ++place_;
  }
}

}  // namespace winnow
