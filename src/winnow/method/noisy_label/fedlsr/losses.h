// The parts of FedLSR's loss (spec: baselines 18). Logits and probabilities are float [batch,
// classes]; every part is a mean over the batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace winnow::fedlsr {

// gamma * min(1, round / warmup), where `warmup` is a number of rounds; gamma itself without one.
double gamma_in(double gamma, std::int64_t round, double warmup);

// lambda softmax(z) + (1 - lambda) softmax(z'); `lambda` has one value.
at::Tensor mixed(const at::Tensor& first, const at::Tensor& second, const at::Tensor& lambda);

// p^2 / sum p^2 of every row.
at::Tensor sharpened(const at::Tensor& probabilities);

// softmax(3z), at least 1e-6 everywhere.
at::Tensor confident(const at::Tensor& logits);

// The cross-entropy of sharpened probabilities, -log p_y; `literal`: as if they were logits.
at::Tensor class_loss(const at::Tensor& probabilities, const at::Tensor& labels, bool literal);

// The Jensen-Shannon divergence of each pair of rows; `literal`: divided by the number of classes
// too.
at::Tensor divergence(const at::Tensor& first, const at::Tensor& second, bool literal);

// Half the sum of both entropies; `literal`: that of the softmax of the first alone.
at::Tensor entropy(const at::Tensor& first, const at::Tensor& second, bool literal);

}  // namespace winnow::fedlsr
