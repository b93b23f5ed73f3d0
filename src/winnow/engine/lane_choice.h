// How many lanes work at a time on a GPU: measured while the run goes on, since it depends on the
// network, the batch and the device.
#pragma once

#include <cstdint>
#include <vector>

namespace winnow {

// Tries each number for a few calls of ask(), the smallest first, and goes on to the next as long
// as that makes training faster. Results do not depend on the number of lanes.
class LaneChoice {
 public:
  // `numbers` ascending; with one number there is nothing to choose.
  explicit LaneChoice(std::vector<std::int64_t> numbers) : numbers_(std::move(numbers)) {}

  std::int64_t lanes() const { return numbers_[place_]; }
  std::int64_t most() const { return numbers_.back(); }
  bool settled() const { return settled_ || numbers_.size() == 1; }
  // What a call took; calls without training say nothing.
  void note(std::int64_t steps, double seconds);

 private:
  std::vector<std::int64_t> numbers_;
  std::size_t place_ = 0;
  std::int64_t calls_ = 0;     // with the present number
  double speed_before_ = 0.0;  // of the number before it
  bool settled_ = false;
};

}  // namespace winnow
