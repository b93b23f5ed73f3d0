// Losses of local training. Batch means, differentiable, without host round trips.
#pragma once

#include <ATen/core/Tensor.h>

namespace winnow {

// Cross-entropy with label smoothing over all classes and a softmax temperature
// (spec: label-noise C.2): q = log_softmax(z/T); loss = -((1-eps) q_y + (eps/M) sum_j q_j).
at::Tensor smoothed_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                  double label_smoothing, double temperature);

// Cross-entropy of every sample, [batch], without gradient.
at::Tensor losses(const at::Tensor& logits, const at::Tensor& labels);

// The cross-entropy that FedCorr's code computes: softmax first, then a cross-entropy that applies
// log-softmax again, ln(sum_j e^{p_j}) - p_y (spec: label-noise A.4 #2). Per sample.
at::Tensor double_softmax_losses(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace winnow
