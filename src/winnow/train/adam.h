// Adam and AdamW exactly as PyTorch defines them, over one flat buffer, with a proximal pull
// towards an anchor added to the gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "winnow/train/sgd.h"

namespace winnow {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  bool decoupled = false;  // AdamW: weights decay by themselves, not through the gradient
  double proximal = 0.0;   // strength
  Pull pull = Pull::square;
};

// One step on `weights`, on any device; leaves `gradient` zero for the next backward pass. All are
// flat, of one size. `number` counts the steps from 1; the moments are written, not read, in the
// first. `anchor` may be undefined without a proximal term.
//   g <- g + weight_decay*w (Adam) + d(pull)/dw;  w <- w - lr*weight_decay*w (AdamW)
//   m <- beta1*m + (1-beta1)*g;  v <- beta2*v + (1-beta2)*g^2
//   w <- w - lr * m/(1-beta1^number) / (sqrt(v/(1-beta2^number)) + epsilon)
void adam_step(at::Tensor& weights, at::Tensor& gradient, at::Tensor& mean, at::Tensor& square,
               const at::Tensor& anchor, const AdamOptions& options, std::int64_t number);

}  // namespace winnow
