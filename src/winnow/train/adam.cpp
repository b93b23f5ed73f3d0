#include "winnow/train/adam.h"

#include <ATen/ATen.h>

#include <cmath>

#include "winnow/base/math.h"

namespace winnow {

void adam_step(at::Tensor& weights, at::Tensor& gradient, at::Tensor& mean, at::Tensor& square,
               const at::Tensor& anchor, const AdamOptions& options, std::int64_t number) {
  if (number == 1) {
    mean.zero_();
    square.zero_();
  }
  if (options.weight_decay != 0.0 && !options.decoupled) {
    gradient.add_(weights, options.weight_decay);
  }
  if (options.proximal != 0.0) {
    add_pull(weights, gradient, anchor, options.proximal, options.pull);
  }
  if (options.weight_decay != 0.0 && options.decoupled) {
    weights.mul_(1.0 - options.lr * options.weight_decay);
  }
  mean.mul_(options.beta1).add_(gradient, 1.0 - options.beta1);
  square.mul_(options.beta2).addcmul_(gradient, gradient, 1.0 - options.beta2);
  const auto steps = static_cast<double>(number);
  const double mean_bias = 1.0 - math::pow(options.beta1, steps);
  const double square_bias = 1.0 - math::pow(options.beta2, steps);
  const at::Tensor scale = square.sqrt().div_(std::sqrt(square_bias)).add_(options.epsilon);
  weights.addcdiv_(mean, scale, -options.lr / mean_bias);
  gradient.zero_();
}

}  // namespace winnow
