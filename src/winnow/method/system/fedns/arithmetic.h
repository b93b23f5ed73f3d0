// FedNS's client-side score (spec: input-noise 1.2): how large the gradient of a loss is in one
// weight tensor, usually the classifier's, batch by batch over the client's own samples.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "winnow/train/scorer.h"

namespace winnow::fedns {

// The target of the loss whose gradients score a client: all classes alike, or the given label.
enum class ScoreTarget { uniform, label };
// What becomes of a client's gradient norms.
enum class Statistic { mean, var, median };
// Batch normalisation while a client is scored: by the batches, after which the running statistics
// are as before or as moved, or by the running statistics.
enum class ScoreNorm { train_restore, train_update, eval };

// What is measured and how; the names are those of the method's parameters.
struct ScoreRule {
  std::int64_t batch = 16;
  std::int64_t norm = 1;  // 1 or 2
  ScoreTarget loss = ScoreTarget::uniform;
  double temperature = 1.0;
  Statistic statistic = Statistic::mean;
  ScoreNorm batch_norm = ScoreNorm::train_restore;
  std::string layer = {};  // a weight's name; empty: the head's

  bool moves_statistics() const { return batch_norm == ScoreNorm::train_update; }
  bool uses_batch_statistics() const { return batch_norm != ScoreNorm::eval; }
};

// The gradient of the batch loss in the head's weight, [classes, width], in closed form. The target
// is the label, or the all-ones vector where `labels` is undefined:
//   (1/(m T)) sum_i (p_i - y_i) h_i^T   or   (1/(m T)) sum_i (C p_i - 1) h_i^T,  p = softmax(z/T).
at::Tensor head_gradient(const at::Tensor& features, const at::Tensor& logits,
                         const at::Tensor& labels, double temperature);

// The same batch loss to differentiate: the sum over classes of -log softmax(z/T), or its term of
// the label, as the mean over the batch.
at::Tensor score_loss(const at::Tensor& logits, const at::Tensor& labels, double temperature);

// The 1-norm or the 2-norm of all entries: a float64 scalar on the gradient's device.
at::Tensor gradient_norm(const at::Tensor& gradient, std::int64_t norm);

// One norm per batch of the model loaded in the scorer, over `samples` as they are and in their
// order, the last short batch included. `labels` are on the lane's device; they matter for
// ScoreTarget::label only. Batch statistics move the running ones of the loaded model, not its
// counters.
std::vector<double> gradient_norms(Scorer& scorer, std::span<const std::int64_t> samples,
                                   const at::Tensor& labels, const ScoreRule& rule);

// Mean, population variance or median (mean of the middle two); NaN of nothing and of norms that
// are not all finite.
double statistic_of(std::span<const double> norms, Statistic statistic);

}  // namespace winnow::fedns
