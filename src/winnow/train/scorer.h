// Looks at the networks of a lane without moving their weights, and counts its passes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "winnow/train/nets.h"
#include "winnow/train/passes.h"
#include "winnow/train/plan.h"

namespace winnow {

// Of one class: samples with that label, those that were taken for it, and those that are both.
struct ClassCount {
  std::int64_t labelled = 0;
  std::int64_t predicted = 0;
  std::int64_t right = 0;
};

// Means over the classes that some sample has or was taken for; of a class that none was taken for
// the precision is 0, and of one that none has the recall (spec: partitions M).
struct MacroScore {
  double precision = 0.0;
  double recall = 0.0;
  double f1 = 0.0;
};

// Correct predictions and summed cross-entropy over some samples.
struct Score {
  std::int64_t correct = 0;
  std::int64_t count = 0;
  double loss_sum = 0.0;
  std::int64_t among_five = 0;           // samples whose label is among the five likeliest classes
  std::vector<ClassCount> classes = {};  // by class

  Score& operator+=(const Score& other);
  double accuracy() const {
    return count == 0 ? 0.0 : static_cast<double>(correct) / static_cast<double>(count);
  }
  double top5() const {
    return count == 0 ? 0.0 : static_cast<double>(among_five) / static_cast<double>(count);
  }
  MacroScore macro() const;
  double mean_loss() const { return count == 0 ? 0.0 : loss_sum / static_cast<double>(count); }
};

// By class what is labelled and predicted; both are [samples].
std::vector<ClassCount> count_classes(std::span<const std::int64_t> labels,
                                      std::span<const std::int64_t> predicted,
                                      std::int64_t classes);

// How many rows have fewer than five values above that of their label; a value that is not a number
// counts as above. `labels` is [rows].
std::int64_t count_among_five(const at::Tensor& values, const at::Tensor& labels);

// Not thread-safe.
class Scorer {
 public:
  // The networks must outlive it.
  explicit Scorer(Nets& nets) : nets_(&nets) {}

  // Loads weights into the first model for the calls below.
  void load(const State& state);
  // Logits of the loaded model in eval mode, in the order of `samples`, batch by batch as they
  // come. `feed` may be another one than the lane's (the test images). `jitter` as in Feed::batch,
  // over all samples. `model` chooses another one after begin().
  [[nodiscard]] at::Tensor logits(const Feed& feed, std::span<const std::int64_t> samples,
                                  std::int64_t batch, const Jitter& jitter = {},
                                  std::size_t model = 0);
  // The same pass, batch by batch and with the features: `visit` sees the head's input and output.
  // With `training`, batch statistics are used and running ones move, as in a step.
  using Visit = std::function<void(const at::Tensor& features, const at::Tensor& logits)>;
  void each_batch(const Feed& feed, std::span<const std::int64_t> samples, std::int64_t batch,
                  const Jitter& jitter, bool training, const Visit& visit, std::size_t model = 0);
  // For every batch of the lane's own images the gradient of `loss` in the named parameter of the
  // loaded model; weights do not change. `loss` gets the logits and where the batch starts.
  using BatchLoss = std::function<at::Tensor(const at::Tensor& logits, std::int64_t start)>;
  void each_gradient(std::span<const std::int64_t> samples, std::int64_t batch, bool training,
                     const std::string& parameter, const BatchLoss& loss,
                     const std::function<void(const at::Tensor& gradient)>& visit);
  // Logits of the loaded model in eval mode for images that are already network input.
  [[nodiscard]] at::Tensor output(const at::Tensor& images);

  // Accuracy and cross-entropy of the loaded model in eval mode.
  Score score(const Feed& feed, const LocalSet& set, std::int64_t batch);

  // All its passes so far.
  const Passes& passes() const { return passes_; }
  // The lane's own images.
  const Feed& feed() const { return nets_->feed(); }

 private:
  // Network input for the samples, batch by batch, without gradients.
  void each_input(const Feed& feed, std::span<const std::int64_t> samples, std::int64_t batch,
                  const Jitter& jitter, const std::function<void(const at::Tensor& images)>& visit);

  Nets* nets_;
  Passes passes_;
};

}  // namespace winnow
