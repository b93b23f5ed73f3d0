// Losses of trainers that do not take every label at its word. Differentiable, without host round
// trips, and with shapes that follow from their arguments: they may be part of a captured step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace winnow {

// The terms whose mean smoothed_cross_entropy() is, [batch].
at::Tensor smoothed_cross_entropies(const at::Tensor& logits, const at::Tensor& labels,
                                    double label_smoothing, double temperature);

// -sum_c target_c log p_c of every sample, [batch]; targets are rows of probabilities.
at::Tensor soft_cross_entropies(const at::Tensor& logits, const at::Tensor& targets);

// Entropy of every sample's prediction, [batch], in nats.
at::Tensor entropies(const at::Tensor& logits);

// How far the batch's mean prediction is from uniform: sum_c (1/C) log((1/C) / mean_c), 0 if and
// only if it is uniform. Finite also where a class is never predicted.
at::Tensor uniformity_penalty(const at::Tensor& logits);

// Labels as rows of 0 and 1, float [batch, classes].
at::Tensor one_hot_rows(const at::Tensor& labels, std::int64_t classes);

// 1 for the `count` smallest of `values`, 0 for the others, float [batch]; of equal values the
// earlier are the smaller. `count` is a tensor of one whole number.
at::Tensor smallest(const at::Tensor& values, const at::Tensor& count);

// The mean of the values whose weight is 1; 0 when there is none. Weights are 0 or 1.
at::Tensor chosen_mean(const at::Tensor& values, const at::Tensor& weights);

}  // namespace winnow
