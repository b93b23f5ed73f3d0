#include "winnow/train/objective.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "winnow/train/loss.h"

namespace winnow {

at::Tensor Models::logits(std::size_t number, const at::Tensor& images) const {
  return nets[number]->forward(images, training).to(at::kFloat);
}

CrossEntropy::CrossEntropy(const TrainOptions& options, bool head_only)
    : label_smoothing_(options.label_smoothing),
      temperature_(options.temperature),
      head_only_(head_only) {}

at::Tensor CrossEntropy::loss(const Batch& batch, const Models& models) const {
  at::Tensor logits;
  if (head_only_) {
    at::Tensor features;
    {
      const c10::NoGradGuard frozen;
      features = models[0].features(batch.images, models.training);
    }
    logits = models[0].logits(features).to(at::kFloat);
  } else {
    logits = models.logits(0, batch.images);
  }
  return loss_of(logits, batch);
}

at::Tensor CrossEntropy::loss_of(const at::Tensor& logits, const Batch& batch) const {
  const auto loss = [&](const at::Tensor& targets) {
    return smoothed_cross_entropy(logits, targets, label_smoothing_, temperature_);
  };
  if (!batch.lambda.defined()) {
    return loss(batch.labels);
  }
  return loss(batch.labels) * batch.lambda + loss(batch.partner_labels) * (1 - batch.lambda);
}

std::string CrossEntropy::signature() const {
  return fmt::format("cross-entropy {} {} {}", label_smoothing_, temperature_, head_only_);
}

}  // namespace winnow
