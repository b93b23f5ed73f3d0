// The arithmetic of RHFL (spec: baselines 17, 25): how far clients are trusted, what each of them
// learns from the others, and the two losses.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

namespace winnow::rhfl {

// F_k = q_k / sum q with q_k = (before_k - now_k) / now_k, the relative fall of a client's loss.
// All zero when the sum is at most 1e-8: then the shares mean nothing.
std::vector<double> improvement_shares(std::span<const double> before, std::span<const double> now);

// W = softmax_k(1/(K-1) + beta F_k); the constant cancels. Sums to 1;
// beta is not negative.
std::vector<double> confidence_weights(std::span<const double> shares, double beta);

// For every client k the sum over i != k of weights[i] * outputs[i], value by value. Outputs of
// weight 0 are not looked at.
std::vector<std::vector<float>> mixtures(std::span<const double> weights,
                                         const std::vector<std::vector<float>>& outputs);

// alpha * CE + beta * RCE of every sample, with RCE = -ln(1e-4) (1 - p_y) (spec: baselines 25).
at::Tensor symmetric_cross_entropies(const at::Tensor& logits, const at::Tensor& labels,
                                     double alpha, double beta);

// -sum_c target_c log p_c, mean over the batch. For a target sum_i W_i p_i it is
// sum_i W_i KL(p_i || p) but for a constant.
at::Tensor distillation_loss(const at::Tensor& logits, const at::Tensor& target);

}  // namespace winnow::rhfl
