#include "winnow/method/noisy_label/fedelc/client.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "winnow/federation/aggregation.h"
#include "winnow/method/local_training.h"
#include "winnow/train/loss.h"
#include "winnow/train/soft_loss.h"

namespace winnow::fedelc {
namespace {

constexpr const char* kLabels = "fedelc.labels";

}  // namespace

// spec: rivals 3.2
Estimate estimate(const at::Tensor& logits, const at::Tensor& label_logits, const at::Tensor& given,
                  const at::Tensor& counted, double alpha, double beta) {
  const auto classes = static_cast<double>(logits.size(1));
  const auto size = static_cast<double>(logits.size(0));
  const at::Tensor p = logits.softmax(1);
  const at::Tensor log_p = logits.log_softmax(1);
  const at::Tensor log_q = label_logits.log_softmax(1);
  const at::Tensor entropy = -(p * log_p).sum(1).mean();
  const at::Tensor divergence = -(p * log_q).sum(1).mean() - entropy;
  const at::Tensor number = counted.sum().clamp_min(1);
  const at::Tensor given_rows = one_hot_rows(given, logits.size(1));
  const at::Tensor classification = -((log_q * given_rows).sum(1) * counted).sum() / number;
  const at::Tensor q = log_q.exp();
  return {divergence / classes + classification * alpha + entropy * (beta / classes),
          (q - p.detach()) / (classes * size) +
              (q - given_rows) * counted.unsqueeze(1) * alpha / number};
}

at::Tensor merged(const at::Tensor& label_logits, const at::Tensor& prediction, double k) {
  return (label_logits.softmax(1) + prediction) * (k / 2.0);
}

at::Tensor Objective::loss(const Batch& batch, const Models& models) const {
  const at::Tensor logits = models.logits(0, batch.images);
  const at::Tensor places = buffers_.place.index_select(0, batch.entries);
  at::Tensor counted;
  {
    const c10::NoGradGuard choosing;
    counted = smallest(losses(logits, batch.labels), buffers_.counts.index_select(0, batch.step));
  }
  const Estimate found = estimate(logits, buffers_.labels.index_select(0, places), batch.labels,
                                  counted, alpha_, beta_);
  const c10::NoGradGuard after;
  buffers_.gradient.index_copy_(0, places, found.gradient);
  return found.loss;
}

std::string Objective::signature() const {
  return fmt::format("fedelc {} {}", alpha_, beta_);
}

at::Tensor Client::kept_counts(const Plan& plan) const {
  std::vector<std::int64_t> counts;
  for (const Plan::Batch& batch : plan.batches) {
    const double share = options_.masked ? options_.keep : 1.0;
    counts.push_back(std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::floor(share * static_cast<double>(batch.size) + 1e-9))));
  }
  return at::tensor(counts, at::kLong);
}

State Client::train_noisy(const Message& task, ClientContext& context) const {
  const std::int64_t round = round_of(task);
  const TrainOptions& options = context.options();
  Trainer& trainer = context.trainer();
  const TrainKey key = context.key(round);
  const Plan plan = make_plan(context.local_set(), options, context.augment(), key);
  const std::int64_t samples = context.size();
  Buffers buffers;
  buffers.labels =
      fill(trainer, kLabels,
           context.recall(kLabels,
                          one_hot_rows(context.labels_tensor(), context.classes()) * options_.k));
  trainer.begin({task.get<State>("model")}, key);
  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    const Plan part = plan.epoch(epoch, options.epochs);
    buffers.place = fill(trainer, "fedelc.place", part.place);
    buffers.counts = fill(trainer, "fedelc.counts", kept_counts(part));
    buffers.gradient = fill(trainer, "fedelc.gradient", at::zeros({samples, context.classes()}));
    trainer.take_steps(part, Objective(buffers, options_), stepping(options, round));
    buffers.labels.narrow(0, 0, samples)
        .sub_(buffers.gradient.narrow(0, 0, samples), options_.lambda);
  }
  State trained = trainer.finished_model();
  if (all_finite(trained)) {
    const at::Tensor prediction =
        context.logits(trained, options.eval_batch).to(at::kFloat).softmax(1);
    remember(merged(buffers.labels.narrow(0, 0, samples), prediction, options_.k), context);
  }
  return trained;
}

void Client::remember(const at::Tensor& labels, ClientContext& context) const {
  const at::Tensor kept = first_rows(labels, context.size());
  if (!kept.isfinite().all().item<bool>()) {
    return;
  }
  context.archive().tensors[kLabels] = kept;
  const at::Tensor classes = kept.argmax(1);
  const auto* first = classes.data_ptr<std::int64_t>();
  context.trace().last_labels.emplace(first, first + classes.numel());
}

void Client::check_memory(ClientContext& context) const {
  context.archive().tensor(kLabels, at::kFloat, {context.size(), context.classes()});
}

}  // namespace winnow::fedelc
