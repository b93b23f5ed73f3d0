// What a RoFL client minimises, and how its centroids move on the way (spec: baselines 16).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/method/noisy_label/rofl/arithmetic.h"
#include "winnow/train/objective.h"
#include "winnow/train/plan.h"
#include "winnow/train/trainer.h"

namespace winnow::rofl {

// Over the samples of a batch with the smallest cross-entropies:
//   mean CE(target) + lambda_cen(t) * mean over those near their label's centroid of
//   |feature - centroid|^2 + lambda_e * mean entropy.
// The target is the given label; from pseudo_round on the pseudo-label for samples that are nearest
// to another class's centroid. Keeps its centroids, and who was kept, in the trainer's buffers.
class Objective final : public winnow::Objective {
 public:
  // `pseudo_labels` of the local samples, int64; `centroids` float [classes, width].
  Objective(const Options& options, std::int64_t round, const Plan& plan,
            const at::Tensor& pseudo_labels, const at::Tensor& centroids, Trainer& trainer);

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;
  bool reads_entries() const override { return true; }

  // As the steps so far have left them, on the lane's device.
  const at::Tensor& centroids() const { return centroids_; }
  // By entry of the plan: whether a step kept it, uint8. May be longer than the plan.
  const at::Tensor& kept() const { return kept_; }

 private:
  at::Tensor centroid_term(const at::Tensor& features, const at::Tensor& labels,
                           const at::Tensor& counted) const;

  double lambda_e_;
  bool literal_;
  at::Tensor centroids_;      // [classes, width]
  at::Tensor pseudo_labels_;  // by entry
  at::Tensor counts_;         // by step: how many are kept
  at::Tensor round_;          // lambda_cen(t); 1 while given labels are the targets, then 0
  at::Tensor kept_;           // by entry
};

}  // namespace winnow::rofl
