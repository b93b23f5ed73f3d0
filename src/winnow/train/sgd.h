// Plain SGD exactly as PyTorch defines it, over one flat buffer (spec: label-noise 0.2), with a
// proximal pull towards an anchor added to the gradient.
#pragma once

#include <ATen/core/Tensor.h>

namespace winnow {

// How strongly a proximal term pulls, by the distance from the anchor.
enum class Pull {
  square,  // (strength/2) ||w - anchor||^2: FedProx
  norm,    // strength * ||w - anchor||: FedCorr
};

// Adds the derivative of the pull at `weights` to the gradient: strength*(w - anchor), divided by
// ||w - anchor|| for Pull::norm, and 0 at the anchor. All are flat, of one size.
void add_pull(const at::Tensor& weights, at::Tensor& gradient, const at::Tensor& anchor,
              double strength, Pull pull);

struct SgdOptions {
  double lr = 0.01;
  double momentum = 0.0;
  double weight_decay = 0.0;
  double proximal = 0.0;  // strength
  Pull pull = Pull::square;
};

// One step on `weights`; leaves `gradient` zero for the next backward pass. All are flat, of one
// size. `velocity` is written, not read, when `first`. `anchor` may be undefined without a
// proximal term.
//   g <- g + weight_decay*w + d(pull)/dw;  v <- g at first, then momentum*v + g;  w <- w - lr*v
// The derivative of the pull is add_pull()'s.
void sgd_step(at::Tensor& weights, at::Tensor& gradient, at::Tensor& velocity,
              const at::Tensor& anchor, const SgdOptions& options, bool first);

}  // namespace winnow
