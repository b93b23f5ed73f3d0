#include "winnow/method/trainer/dividemix/objective.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "winnow/method/trainer/dividemix/mix_plan.h"
#include "winnow/train/loss.h"
#include "winnow/train/soft_loss.h"

namespace winnow::dividemix {
namespace {

// [views * size, ...] as [views, size, ...].
at::Tensor by_view(const at::Tensor& tensor) {
  std::vector<std::int64_t> shape = tensor.sizes().vec();
  shape.front() /= kViews;
  shape.insert(shape.begin(), kViews);
  return tensor.view(shape);
}

// `share` of each row and the rest of its partner's.
at::Tensor mix(const at::Tensor& rows, const at::Tensor& partner, const at::Tensor& share) {
  const at::Tensor own = share.to(rows.scalar_type());
  return rows * own + rows.index_select(0, partner) * (1 - own);
}

}  // namespace

at::Tensor sharpen(const at::Tensor& probabilities, double temperature) {
  const at::Tensor powers = probabilities.pow(1.0 / temperature);
  return powers / powers.sum(1, /*keepdim=*/true);
}

at::Tensor refine(const at::Tensor& clean, const at::Tensor& labels, const at::Tensor& predictions,
                  double temperature) {
  const at::Tensor trust = clean.unsqueeze(1);
  return sharpen(trust * labels + (1 - trust) * predictions, temperature);
}

double unlabelled_weight(double t, double weight, std::int64_t warmup, std::int64_t ramp) {
  const double since = t - static_cast<double>(warmup);
  if (ramp == 0) {
    return since >= 0.0 ? weight : 0.0;
  }
  return weight * std::clamp(since / static_cast<double>(ramp), 0.0, 1.0);
}

MixObjective::MixObjective(MixBuffers buffers, std::size_t network, bool unlabelled,
                           double temperature)
    : buffers_(std::move(buffers)),
      network_(network),
      unlabelled_(unlabelled),
      temperature_(temperature) {}

at::Tensor MixObjective::guess(const Batch& batch, std::int64_t labelled,
                               const Models& models) const {
  const std::int64_t others = batch.labels.size(0) - labelled;
  const at::Tensor own = by_view(models.logits(network_, batch.images).softmax(1)).mean(0);
  const at::Tensor given = one_hot_rows(batch.labels.narrow(0, 0, labelled), own.size(1));
  at::Tensor refined = refine(buffers_.clean.index_select(0, batch.entries.narrow(0, 0, labelled)),
                              given, own.narrow(0, 0, labelled), temperature_);
  if (others == 0) {
    return refined;
  }
  const at::Tensor images = by_view(batch.images).narrow(1, labelled, others).flatten(0, 1);
  const at::Tensor peer = models[1 - network_].forward(images, Pass{}).to(at::kFloat).softmax(1);
  const at::Tensor guessed = (own.narrow(0, labelled, others) + by_view(peer).mean(0)) / 2;
  return at::cat({refined, sharpen(guessed, temperature_)});
}

at::Tensor MixObjective::loss(const Batch& batch, const Models& models) const {
  const std::int64_t size = batch.labels.size(0);
  const std::int64_t labelled = unlabelled_ ? size / 2 : size;
  at::Tensor images;
  at::Tensor targets;
  {
    const c10::NoGradGuard no_gradient;
    const at::Tensor partner = buffers_.partner.index_select(0, batch.entries).t().reshape({-1});
    const at::Tensor share = buffers_.lambda.index_select(0, batch.step);
    targets = by_view(mix(guess(batch, labelled, models).repeat({kViews, 1}), partner, share));
    images = mix(batch.images, partner, share);
  }
  const at::Tensor logits = models.logits(network_, images);
  const auto part = [&](const at::Tensor& rows, std::int64_t start, std::int64_t count) {
    return rows.narrow(1, start, count).flatten(0, 1);
  };
  const at::Tensor rows = by_view(logits);
  at::Tensor value =
      soft_cross_entropies(part(rows, 0, labelled), part(targets, 0, labelled)).mean() +
      uniformity_penalty(logits);
  if (unlabelled_) {
    const at::Tensor predictions = part(rows, labelled, labelled).softmax(1);
    const at::Tensor error = (predictions - part(targets, labelled, labelled)).square().mean();
    value = value + error * buffers_.weight.index_select(0, batch.step).squeeze(0);
  }
  return value;
}

std::string MixObjective::signature() const {
  return fmt::format("dividemix {} {} {}", network_, unlabelled_, temperature_);
}

NetworkCrossEntropy::NetworkCrossEntropy(std::size_t network, const TrainOptions& options)
    : network_(network),
      label_smoothing_(options.label_smoothing),
      temperature_(options.temperature) {}

at::Tensor NetworkCrossEntropy::loss(const Batch& batch, const Models& models) const {
  return smoothed_cross_entropy(models.logits(network_, batch.images), batch.labels,
                                label_smoothing_, temperature_);
}

std::string NetworkCrossEntropy::signature() const {
  return fmt::format("cross-entropy of network {} {} {}", network_, label_smoothing_, temperature_);
}

}  // namespace winnow::dividemix
