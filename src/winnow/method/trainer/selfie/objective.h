// What SELFIE trains on (spec: baselines 23): samples of small loss with the label they were given,
// and samples that are always predicted alike with that prediction.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "winnow/train/objective.h"

namespace winnow::selfie {

// How often each class is among a sample's predictions: [samples, history] to [samples, classes].
at::Tensor prediction_counts(const at::Tensor& history, std::int64_t classes);

// The entropy of these shares over the largest one possible, [samples]: 0 where all agree, 1 where
// all classes are predicted equally often.
at::Tensor uncertainty(const at::Tensor& counts);

// How many samples of a batch are considered clean: the whole number above (1 - rate) * batch.
std::int64_t clean_count(std::int64_t batch, double rate);

// What a step reads and writes, buffers of the trainer.
struct Buffers {
  at::Tensor history;  // int64 [samples, history]: predicted classes, by place
  at::Tensor
      refurbished;   // int64 [samples]: the label that replaces the given one, or -1; by place
  at::Tensor used;   // uint8 [samples]: whether it was last trained on; by place
  at::Tensor place;  // int64 [entries]: of the entries of the epoch
  at::Tensor slot;   // int64 [1]: where in the history the epoch's predictions go
  at::Tensor full;   // uint8 [1]: whether histories are full with them
  at::Tensor clean;  // int64 [steps]: clean_count() of the batch
};

// Records the prediction of every forward pass. While `warm`, that is all it adds to FedAvg's
// cross-entropy.
class Objective final : public winnow::Objective {
 public:
  Objective(Buffers buffers, double threshold, const TrainOptions& options, bool warm);

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;
  bool reads_entries() const override { return true; }

 private:
  // Records predictions and returns the refurbished labels of the batch, -1 where there is none.
  at::Tensor refurbish(const at::Tensor& logits, const at::Tensor& places) const;

  Buffers buffers_;
  double threshold_;
  double label_smoothing_;
  double temperature_;
  bool warm_;
};

}  // namespace winnow::selfie
