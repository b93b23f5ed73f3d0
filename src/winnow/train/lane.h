// A lane: what works on one client at a time. It has networks of its own, one or, for methods that
// train or compare several models side by side, several; a trainer and a scorer work on them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "winnow/train/nets.h"
#include "winnow/train/scorer.h"
#include "winnow/train/trainer.h"

namespace winnow {

// Not thread-safe: a lane is used by one thread at a time.
class Lane {
 public:
  // `feed` gives the training images and must outlive the lane; `stop` too, when given: it is
  // looked at before every step, and Interrupted is thrown once it is set. With `low`, a GPU trains
  // in bfloat16 over float32 weights; scoring is always float32.
  Lane(MakeNet make, const Feed& feed, bool augment, const std::atomic<bool>* stop = nullptr,
       bool low = false)
      : nets_(std::make_unique<Nets>(std::move(make), feed, augment, stop, low)),
        trainer_(*nets_),
        scorer_(*nets_) {}

  Trainer& trainer() { return trainer_; }
  Scorer& scorer() { return scorer_; }
  // Runs `work` on the lane's own stream of a GPU; on a CPU simply runs it.
  void on_stream(const std::function<void()>& work) const { nets_->on_stream(work); }

  // All passes so far, training and scoring.
  Passes passes() const {
    Passes all = trainer_.passes();
    return all += scorer_.passes();
  }
  const Feed& feed() const { return nets_->feed(); }
  Augment augment() const { return nets_->augment(); }
  const LayoutPtr& layout() const { return nets_->layout(); }
  // Classes that the network tells apart.
  std::int64_t classes() const { return (*nets_)[0].net->classes(); }
  // Channels, height and width of network input.
  std::vector<std::int64_t> input_shape() const {
    return {feed().channels(), feed().height(), feed().width()};
  }
  // Fresh values of the network, on its device.
  [[nodiscard]] State initial(std::uint64_t seed) const {
    return (*nets_)[0].net->weights().initial(seed).to(feed().device());
  }

 private:
  std::unique_ptr<Nets> nets_;  // stays where it is when the lane is moved
  Trainer trainer_;
  Scorer scorer_;
};

}  // namespace winnow
