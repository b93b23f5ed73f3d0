#include "winnow/method/noisy_label/rofl/objective.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "winnow/method/local_training.h"
#include "winnow/train/loss.h"
#include "winnow/train/soft_loss.h"

namespace winnow::rofl {
namespace {

at::Tensor kept_counts(const Plan& plan, double rate) {
  std::vector<std::int64_t> counts;
  counts.reserve(plan.batches.size());
  for (const Plan::Batch& batch : plan.batches) {
    counts.push_back(kept_of(batch.size, rate));
  }
  return at::tensor(counts, at::kLong);
}

}  // namespace

Objective::Objective(const Options& options, std::int64_t round, const Plan& plan,
                     const at::Tensor& pseudo_labels, const at::Tensor& centroids, Trainer& trainer)
    : lambda_e_(options.lambda_e),
      literal_(options.literal),
      centroids_(fill(trainer, "rofl.centroids", centroids).narrow(0, 0, centroids.size(0))),
      pseudo_labels_(fill(trainer, "rofl.pseudo_labels",
                          pseudo_labels.index_select(0, plan.place.to(pseudo_labels.device())))),
      counts_(fill(trainer, "rofl.counts", kept_counts(plan, forget_rate_in(options, round)))),
      round_(fill(trainer, "rofl.round",
                  at::tensor({static_cast<float>(centroid_weight_in(options, round)),
                              round < options.pseudo_round ? 1.0F : 0.0F}))),
      kept_(trainer.buffer("rofl.kept", plan.entries(), {}, at::kByte)) {}

at::Tensor Objective::centroid_term(const at::Tensor& features, const at::Tensor& labels,
                                    const at::Tensor& counted) const {
  const at::Tensor from = literal_ ? features.detach() : features;
  const at::Tensor distances = (from - centroids_.index_select(0, labels)).square().sum(1);
  return (distances * counted).sum();
}

at::Tensor Objective::loss(const Batch& batch, const Models& models) const {
  const at::Tensor raw = models[0].features(batch.images, models.training);
  const at::Tensor logits = models[0].logits(raw).to(at::kFloat);
  const at::Tensor features = raw.to(at::kFloat);
  const at::Tensor count = counts_.index_select(0, batch.step).select(0, 0);
  at::Tensor kept;
  at::Tensor near_own;
  at::Tensor targets;
  {
    const c10::NoGradGuard choosing;
    kept = smallest(losses(logits, batch.labels), count);
    near_own = nearest(features, centroids_).eq(batch.labels);
    targets = at::where(near_own.logical_or(round_.select(0, 1).gt(0)), batch.labels,
                        pseudo_labels_.index_select(0, batch.entries));
  }
  const auto mean = [&](const at::Tensor& values) { return (values * kept).sum() / count; };
  at::Tensor centroid = centroid_term(features, batch.labels, kept * near_own);
  if (!literal_) {
    centroid = centroid / count;
  }
  at::Tensor value = mean(at::cross_entropy_loss(logits, targets, {}, at::Reduction::None)) +
                     round_.select(0, 0) * centroid + lambda_e_ * mean(entropies(logits));
  const c10::NoGradGuard after;
  centroids_.copy_(moved(centroids_, features, batch.labels, kept));
  kept_.index_copy_(0, batch.entries, kept.to(at::kByte));
  return value;
}

std::string Objective::signature() const {
  return fmt::format("rofl {} {}", lambda_e_, literal_);
}

}  // namespace winnow::rofl
