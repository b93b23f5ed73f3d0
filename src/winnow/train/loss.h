// Losses of local training. Batch means, differentiable, without host round trips.
#pragma once

#include <ATen/core/Tensor.h>

namespace winnow {

// Cross-entropy with label smoothing over all classes and a softmax temperature
// (spec: label-noise C.2): q = log_softmax(z/T); loss = -((1-eps) q_y + (eps/M) sum_j q_j).
at::Tensor smoothed_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                  double label_smoothing, double temperature);

}  // namespace winnow
