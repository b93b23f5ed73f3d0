#include "winnow/method/trainer/selfie/objective.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "winnow/base/math.h"
#include "winnow/train/loss.h"
#include "winnow/train/soft_loss.h"

namespace winnow::selfie {

at::Tensor prediction_counts(const at::Tensor& history, std::int64_t classes) {
  const at::Tensor all = at::arange(classes, history.options());
  return history.unsqueeze(2).eq(all).sum(1);
}

at::Tensor uncertainty(const at::Tensor& counts) {
  const at::Tensor shares = counts.to(at::kFloat) / counts.sum(1, /*keepdim=*/true);
  // x log x is 0 at 0.
  return -at::xlogy(shares, shares).sum(1) / math::log(static_cast<double>(counts.size(1)));
}

std::int64_t clean_count(std::int64_t batch, double rate) {
  // The small subtraction keeps 0.9 * 10 at 9.
  return static_cast<std::int64_t>(std::ceil((1.0 - rate) * static_cast<double>(batch) - 1e-9));
}

Objective::Objective(Buffers buffers, double threshold, const TrainOptions& options, bool warm)
    : buffers_(std::move(buffers)),
      threshold_(threshold),
      label_smoothing_(options.label_smoothing),
      temperature_(options.temperature),
      warm_(warm) {}

at::Tensor Objective::refurbish(const at::Tensor& logits, const at::Tensor& places) const {
  const c10::NoGradGuard no_gradient;
  const std::int64_t length = buffers_.history.size(1);
  buffers_.history.view({-1}).index_copy_(0, places * length + buffers_.slot.narrow(0, 0, 1),
                                          logits.argmax(1));
  at::Tensor known = buffers_.refurbished.index_select(0, places);
  if (warm_) {
    return known;
  }
  const at::Tensor counts =
      prediction_counts(buffers_.history.index_select(0, places), logits.size(1));
  const at::Tensor sure =
      uncertainty(counts).le(threshold_).logical_and(buffers_.full.narrow(0, 0, 1));
  at::Tensor labels = at::where(sure, counts.argmax(1), known);
  buffers_.refurbished.index_copy_(0, places, labels);
  return labels;
}

at::Tensor Objective::loss(const Batch& batch, const Models& models) const {
  const at::Tensor logits = models.logits(0, batch.images);
  const at::Tensor places = buffers_.place.index_select(0, batch.entries);
  const at::Tensor labels = refurbish(logits, places);
  if (warm_) {
    return smoothed_cross_entropy(logits, batch.labels, label_smoothing_, temperature_);
  }
  const at::Tensor is_refurbished = labels.ge(0);
  const at::Tensor clean =
      smallest(losses(logits, batch.labels), buffers_.clean.index_select(0, batch.step));
  const at::Tensor used = clean.to(at::kBool).logical_or(is_refurbished);
  buffers_.used.index_copy_(0, places, used.to(at::kByte));
  const at::Tensor targets = at::where(is_refurbished, labels, batch.labels);
  return chosen_mean(smoothed_cross_entropies(logits, targets, label_smoothing_, temperature_),
                     used.to(at::kFloat));
}

std::string Objective::signature() const {
  return fmt::format("selfie {} {} {} {}", warm_, threshold_, label_smoothing_, temperature_);
}

}  // namespace winnow::selfie
