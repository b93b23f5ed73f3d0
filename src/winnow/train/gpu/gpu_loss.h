// Cross-entropy on a GPU as one kernel: small networks are bound by the number of kernels of a
// step.
#pragma once

#include <ATen/core/Tensor.h>

namespace winnow {

// Whether gpu_cross_entropy() takes such logits: float32 rows on a GPU, in a build with CUDA.
bool has_gpu_cross_entropy(const at::Tensor& logits);

// As smoothed_cross_entropy(). Differentiable once.
at::Tensor gpu_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                             double label_smoothing, double temperature);

// A one on that GPU, always the same: handed on as the gradient of a loss with respect to itself,
// it saves the multiplication by it.
at::Tensor gpu_one(at::Device device);

}  // namespace winnow
