#include "winnow/method/base/moon/objective.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "winnow/method/unit_rows.h"
#include "winnow/train/loss.h"

namespace winnow::moon {
namespace {

at::Tensor cross_entropy(const at::Tensor& logits, const Batch& batch, double label_smoothing,
                         double temperature) {
  at::Tensor own = smoothed_cross_entropy(logits, batch.labels, label_smoothing, temperature);
  if (!batch.lambda.defined()) {
    return own;
  }
  return own * batch.lambda +
         smoothed_cross_entropy(logits, batch.partner_labels, label_smoothing, temperature) *
             (1 - batch.lambda);
}

}  // namespace

at::Tensor contrast(const at::Tensor& features, const at::Tensor& received,
                    const at::Tensor& previous, double tau) {
  // ln(1 + e^((s_p - s_g)/tau)), with the difference formed before the features come in.
  const at::Tensor away = unit_rows(previous) - unit_rows(received);
  return at::softplus((unit_rows(features) * away).sum(1).div(tau));
}

Objective::Objective(const TrainOptions& options, double mu, double tau)
    : label_smoothing_(options.label_smoothing),
      temperature_(options.temperature),
      mu_(mu),
      tau_(tau) {}

at::Tensor Objective::loss(const Batch& batch, const Models& models) const {
  at::Tensor received;
  at::Tensor previous;
  {
    const c10::NoGradGuard frozen;
    received = models[1].features(batch.images, Pass{}).to(at::kFloat);
    previous = models[2].features(batch.images, Pass{}).to(at::kFloat);
  }
  const at::Tensor features = models[0].features(batch.images, models.training);
  const at::Tensor logits = models[0].logits(features).to(at::kFloat);
  return cross_entropy(logits, batch, label_smoothing_, temperature_) +
         mu_ * contrast(features.to(at::kFloat), received, previous, tau_).mean();
}

std::string Objective::signature() const {
  return fmt::format("moon {} {} {} {}", label_smoothing_, temperature_, mu_, tau_);
}

}  // namespace winnow::moon
