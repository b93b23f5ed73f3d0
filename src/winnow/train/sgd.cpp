#include "winnow/train/sgd.h"

#include <ATen/ATen.h>

namespace winnow {
namespace {

// The whole step in one pass over memory. Constants are floats, as PyTorch rounds them too.
void step_on_cpu(at::Tensor& weights, at::Tensor& gradient, at::Tensor& velocity,
                 const at::Tensor& anchor, const SgdOptions& options, bool first) {
  const std::int64_t count = weights.numel();
  float* __restrict w = weights.data_ptr<float>();
  float* __restrict g = gradient.data_ptr<float>();
  float* __restrict v = velocity.data_ptr<float>();
  const auto lr = static_cast<float>(options.lr);
  const auto momentum = static_cast<float>(options.momentum);
  if (options.weight_decay != 0.0) {
    const auto decay = static_cast<float>(options.weight_decay);
    for (std::int64_t i = 0; i < count; ++i) {
      g[i] += decay * w[i];
    }
  }
  if (options.proximal != 0.0) {
    const float* __restrict a = anchor.data_ptr<float>();
    const auto pull = static_cast<float>(options.proximal);
    for (std::int64_t i = 0; i < count; ++i) {
      g[i] += pull * (w[i] - a[i]);
    }
  }
  if (first || options.momentum == 0.0) {
    for (std::int64_t i = 0; i < count; ++i) {
      v[i] = g[i];
      w[i] -= lr * v[i];
      g[i] = 0.0F;
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    v[i] = momentum * v[i] + g[i];
    w[i] -= lr * v[i];
    g[i] = 0.0F;
  }
}

}  // namespace

void sgd_step(at::Tensor& weights, at::Tensor& gradient, at::Tensor& velocity,
              const at::Tensor& anchor, const SgdOptions& options, bool first) {
  if (weights.is_cpu()) {
    step_on_cpu(weights, gradient, velocity, anchor, options, first);
    return;
  }
  if (options.weight_decay != 0.0) {
    gradient.add_(weights, options.weight_decay);
  }
  if (options.proximal != 0.0) {
    gradient.add_(weights, options.proximal).sub_(anchor, options.proximal);
  }
  if (first || options.momentum == 0.0) {
    velocity.copy_(gradient);
  } else {
    velocity.mul_(options.momentum).add_(gradient);
  }
  weights.add_(velocity, -options.lr);
  gradient.zero_();
}

}  // namespace winnow
