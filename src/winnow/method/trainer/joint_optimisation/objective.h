// The loss of joint optimisation and the soft labels it trains on (spec: baselines 22).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "winnow/train/objective.h"

namespace winnow::joint_optimisation {

// The names are those of the method's parameters.
struct Options {
  double alpha = 1.2;
  double beta = 0.8;
  std::int64_t history = 15;
  std::int64_t warmup = 100;
  bool hard_labels = false;
  std::int64_t epochs = 0;
};

// sum_c (1/C) log(1 / mean_c) over the classes of the batch's mean prediction: at least log C.
at::Tensor prior_term(const at::Tensor& logits);

// The batch's mean entropy of predictions.
at::Tensor entropy_term(const at::Tensor& logits);

// From the last predictions of every sample, [samples, history, classes] of which the first
// `filled` are there, to its soft label: their mean, or with `hard` the class that it favours.
at::Tensor soft_labels(const at::Tensor& ring, std::int64_t filled, bool hard);

// What a step reads and writes, buffers of the trainer.
struct Buffers {
  at::Tensor ring;   // float [samples, history, classes]: predictions, by place
  at::Tensor soft;   // float [samples, classes]: soft labels, by place
  at::Tensor place;  // int64 [entries]: of the entries of the epoch
  at::Tensor slot;   // int64 [1]: where in the history the epoch's predictions go
};

// Stores the prediction of every forward pass. While `warm`, targets are the given labels and the
// first term is FedAvg's cross-entropy.
class Objective final : public winnow::Objective {
 public:
  Objective(Buffers buffers, const Options& joint, const TrainOptions& options, bool warm);

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;
  bool reads_entries() const override { return true; }

 private:
  Buffers buffers_;
  Options joint_;
  double label_smoothing_;
  double temperature_;
  bool warm_;
};

}  // namespace winnow::joint_optimisation
