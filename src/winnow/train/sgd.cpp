#include "winnow/train/sgd.h"

#include <ATen/ATen.h>

#include <cmath>

namespace winnow {
namespace {

constexpr double kAtTheAnchor = 1e-30;

// What (w - anchor) is multiplied by.
float pull_on_cpu(const float* w, const float* anchor, std::int64_t count, double strength,
                  Pull pull) {
  if (pull == Pull::square) {
    return static_cast<float>(strength);
  }
  double sum = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double difference = static_cast<double>(w[i]) - static_cast<double>(anchor[i]);
    sum += difference * difference;
  }
  const double norm = std::sqrt(sum);
  return norm < kAtTheAnchor ? 0.0F : static_cast<float>(strength / norm);
}

void add_pull_on_cpu(const float* __restrict w, float* __restrict g, const float* __restrict anchor,
                     std::int64_t count, double strength, Pull pull) {
  const float factor = pull_on_cpu(w, anchor, count, strength, pull);
  for (std::int64_t i = 0; i < count; ++i) {
    g[i] += factor * (w[i] - anchor[i]);
  }
}

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
    add_pull_on_cpu(w, g, anchor.data_ptr<float>(), count, options.proximal, options.pull);
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

void add_pull(const at::Tensor& weights, at::Tensor& gradient, const at::Tensor& anchor,
              double strength, Pull pull) {
  if (weights.is_cpu()) {
    add_pull_on_cpu(weights.data_ptr<float>(), gradient.data_ptr<float>(), anchor.data_ptr<float>(),
                    weights.numel(), strength, pull);
  } else if (pull == Pull::square) {
    gradient.add_(weights, strength).sub_(anchor, strength);
  } else {
    const at::Tensor away = weights - anchor;
    gradient.add_(away.mul_(strength / away.norm().clamp_min(kAtTheAnchor)));
  }
}

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
    add_pull(weights, gradient, anchor, options.proximal, options.pull);
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
