// DivideMix's loss (spec: baselines 24): labels refined by the network's own predictions, guesses
// of both networks for samples without a label, and mixtures of all of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "winnow/train/objective.h"

namespace winnow::dividemix {

// Rows to the power of 1 / temperature, scaled to sum to 1.
at::Tensor sharpen(const at::Tensor& probabilities, double temperature);

// clean * label + (1 - clean) * prediction, sharpened. `clean` is [batch], the others
// [batch, classes].
at::Tensor refine(const at::Tensor& clean, const at::Tensor& labels, const at::Tensor& predictions,
                  double temperature);

// The weight of the unlabelled part at a time t in rounds: 0 until the warm-up ends, then in a
// straight line to `weight`, reached after `ramp` rounds.
double unlabelled_weight(double t, double weight, std::int64_t warmup, std::int64_t ramp);

// What a step reads, buffers of the trainer.
struct MixBuffers {
  at::Tensor clean;    // as in MixPlan
  at::Tensor partner;  // likewise
  at::Tensor lambda;   // likewise
  at::Tensor weight;   // float [steps]: of the unlabelled part
};

// Of one network; the other one helps to guess and stays as it is. Batches are those of a MixPlan.
class MixObjective final : public Objective {
 public:
  MixObjective(MixBuffers buffers, std::size_t network, bool unlabelled, double temperature);

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;
  bool reads_entries() const override { return true; }
  // Both views are guessed, those of the unlabelled half by the other network too, and trained on.
  Passes passes(std::int64_t views) const override {
    return {2 * views + (unlabelled_ ? views / 2 : 0), views};
  }

 private:
  // Targets of the batch before it is mixed, the same for both views: [size, classes].
  at::Tensor guess(const Batch& batch, std::int64_t labelled, const Models& models) const;

  MixBuffers buffers_;
  std::size_t network_;
  bool unlabelled_;
  double temperature_;
};

// FedAvg's cross-entropy of one of several networks.
class NetworkCrossEntropy final : public Objective {
 public:
  NetworkCrossEntropy(std::size_t network, const TrainOptions& options);

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;

 private:
  std::size_t network_;
  double label_smoothing_;
  double temperature_;
};

}  // namespace winnow::dividemix
