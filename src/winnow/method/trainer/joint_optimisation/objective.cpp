#include "winnow/method/trainer/joint_optimisation/objective.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <utility>

#include "winnow/base/math.h"
#include "winnow/train/loss.h"
#include "winnow/train/soft_loss.h"

namespace winnow::joint_optimisation {

at::Tensor prior_term(const at::Tensor& logits) {
  return uniformity_penalty(logits) + math::log(static_cast<double>(logits.size(1)));
}

at::Tensor entropy_term(const at::Tensor& logits) {
  return entropies(logits).mean();
}

at::Tensor soft_labels(const at::Tensor& ring, std::int64_t filled, bool hard) {
  // Only what is there counts, so that rows sum to 1 also before the history is full.
  const at::Tensor mean = ring.narrow(1, 0, filled).mean(1);
  return hard ? one_hot_rows(mean.argmax(1), mean.size(1)) : mean;
}

Objective::Objective(Buffers buffers, const Options& joint, const TrainOptions& options, bool warm)
    : buffers_(std::move(buffers)),
      joint_(joint),
      label_smoothing_(options.label_smoothing),
      temperature_(options.temperature),
      warm_(warm) {}

at::Tensor Objective::loss(const Batch& batch, const Models& models) const {
  const at::Tensor logits = models.logits(0, batch.images);
  const at::Tensor places = buffers_.place.index_select(0, batch.entries);
  {
    const c10::NoGradGuard no_gradient;
    const at::Tensor rows = places * joint_.history + buffers_.slot.narrow(0, 0, 1);
    buffers_.ring.view({-1, logits.size(1)}).index_copy_(0, rows, logits.softmax(1));
  }
  at::Tensor value =
      warm_ ? smoothed_cross_entropy(logits, batch.labels, label_smoothing_, temperature_)
            : soft_cross_entropies(logits, buffers_.soft.index_select(0, places)).mean();
  if (joint_.alpha != 0.0) {
    value = value + prior_term(logits) * joint_.alpha;
  }
  if (joint_.beta != 0.0) {
    value = value + entropy_term(logits) * joint_.beta;
  }
  return value;
}

std::string Objective::signature() const {
  return fmt::format("joint optimisation {} {} {} {} {} {}", warm_, joint_.alpha, joint_.beta,
                     joint_.history, label_smoothing_, temperature_);
}

}  // namespace winnow::joint_optimisation
