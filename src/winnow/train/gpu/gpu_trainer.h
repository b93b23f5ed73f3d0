// Local training on a GPU: a training step captured once as a CUDA graph and replayed. The graph
// holds everything between two weights: the next batch gathered by index, augmented, normalised and
// mixed up, forward, loss, backward and update. The host only launches it.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "winnow/model/net.h"
#include "winnow/train/feed.h"
#include "winnow/train/gpu/device.h"
#include "winnow/train/objective.h"
#include "winnow/train/plan.h"
#include "winnow/train/rule.h"

namespace winnow {

// Serves one lane, on a stream of its own. Not thread-safe. A build without CUDA has no GPU lanes,
// and its constructor throws Error(kind internal).
class GpuTrainer {
 public:
  // Trains networks of its own, made by `make`, over copies of the lane's weights in the layout
  // their convolutions like best and, with `low`, in bfloat16. All references must outlive the
  // object.
  GpuTrainer(const MakeNet& make, const Feed& feed, bool low, at::Generator& dropout);
  ~GpuTrainer();
  GpuTrainer(const GpuTrainer&) = delete;
  GpuTrainer& operator=(const GpuTrainer&) = delete;

  // One more model: the weights it starts from and ends in lie in `state`.
  void add(const State& state);
  // Starts a training of as many models: their states hold `starts` now, which nobody changes until
  // the next training starts. Steps without momentum leave no velocity behind.
  void begin(const std::vector<State>& starts);
  // Takes every step of the plan and returns the loss of each, on the device. Waits for nothing;
  // the caller must wait_for() it, before the next call. `before_step` is called now and then and
  // may throw.
  at::Tensor run(const Plan& plan, const Objective& objective, const Stepping& how,
                 const std::function<void()>& before_step);
  // Drops all captured steps: a buffer they use has moved.
  void forget();

  // Runs `work` with the lane's stream as the current one.
  void on_stream(const std::function<void()>& work) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace winnow
