// Local training on a GPU: a training step captured once as a CUDA graph and replayed. The graph
// holds everything between two weights: the next batch gathered by index, augmented, normalised and
// mixed up, forward, loss, backward and update. The host only launches it.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "winnow/model/net.h"
#include "winnow/train/feed.h"
#include "winnow/train/options.h"
#include "winnow/train/plan.h"
#include "winnow/train/rule.h"

namespace winnow {

// The loss of one batch: images as network input, labels, and, with mixup, the partners' labels and
// the weight of the own ones (0-dimensional); both undefined without.
struct Batch {
  at::Tensor images;
  at::Tensor labels;
  at::Tensor partner_labels = {};
  at::Tensor lambda = {};
};

// Serves one lane, on a stream of its own. Not thread-safe. A build without CUDA has no GPU lanes,
// and its constructor throws Error(kind internal).
class GpuTrainer {
 public:
  // Binds `net` to a copy of `state` in the layout its convolutions like best and, with `low`, in
  // bfloat16. All references must outlive the object.
  GpuTrainer(Net& net, const Feed& feed, State& state, bool low, at::Generator& dropout);
  ~GpuTrainer();
  GpuTrainer(const GpuTrainer&) = delete;
  GpuTrainer& operator=(const GpuTrainer&) = delete;

  using Loss = std::function<at::Tensor(const Batch& batch)>;

  // Takes every step of the plan on the model that `state` holds now, and returns the loss of each
  // step, on the device. Waits for nothing; the caller must, before the next call. `before_step` is
  // called now and then and may throw. `loss` must depend on `options` and `rule` alone, for it is
  // captured.
  at::Tensor train(const Plan& plan, const TrainOptions& options, double lr, const LocalRule& rule,
                   const Loss& loss, const std::function<void()>& before_step);

  // Runs `work` with the lane's stream as the current one.
  void on_stream(const std::function<void()>& work) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Waits until the device has done what the calling thread has asked of it; nothing on a CPU.
void wait_for(at::Device device);

}  // namespace winnow
