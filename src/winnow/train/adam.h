// Adam exactly as PyTorch defines it, over one flat buffer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace winnow {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
};

// One step on `weights`, on any device; leaves `gradient` zero for the next backward pass. All are
// flat, of one size. `number` counts the steps from 1; the moments are written, not read, in the
// first.
//   g <- g + weight_decay*w;  m <- beta1*m + (1-beta1)*g;  v <- beta2*v + (1-beta2)*g^2
//   w <- w - lr * m/(1-beta1^number) / (sqrt(v/(1-beta2^number)) + epsilon)
void adam_step(at::Tensor& weights, at::Tensor& gradient, at::Tensor& mean, at::Tensor& square,
               const AdamOptions& options, std::int64_t number);

}  // namespace winnow
