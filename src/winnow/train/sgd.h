// Plain SGD exactly as PyTorch defines it, over one flat buffer (spec: label-noise 0.2), with the
// proximal pull of FedProx added to the gradient.
#pragma once

#include <ATen/core/Tensor.h>

namespace winnow {

struct SgdOptions {
  double lr = 0.01;
  double momentum = 0.0;
  double weight_decay = 0.0;
  // Adds proximal * (w - anchor) to the gradient: the derivative of (proximal/2) ||w - anchor||^2.
  double proximal = 0.0;
};

// One step on `weights`; leaves `gradient` zero for the next backward pass. All are flat, of one
// size. `velocity` is written, not read, when `first`. `anchor` may be undefined without a
// proximal term.
//   g <- g + weight_decay*w + proximal*(w - anchor);  v <- g at first, then momentum*v + g
//   w <- w - lr*v
void sgd_step(at::Tensor& weights, at::Tensor& gradient, at::Tensor& velocity,
              const at::Tensor& anchor, const SgdOptions& options, bool first);

}  // namespace winnow
