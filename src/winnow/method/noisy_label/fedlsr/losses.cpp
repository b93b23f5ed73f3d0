#include "winnow/method/noisy_label/fedlsr/losses.h"

#include <ATen/ATen.h>

namespace winnow::fedlsr {
namespace {

constexpr double kTemper = 3.0;     // logits are multiplied by it
constexpr double kSmallest = 1e-6;  // of a confident probability
constexpr double kTiny = 1e-12;     // keeps a logarithm finite

at::Tensor mean_entropy(const at::Tensor& probabilities) {
  return probabilities.mul(probabilities.log()).sum(1).mean().neg();
}

}  // namespace

double gamma_in(double gamma, std::int64_t round, double warmup) {
  const auto passed = static_cast<double>(round);
  return passed >= warmup ? gamma : gamma * passed / warmup;
}

at::Tensor mixed(const at::Tensor& first, const at::Tensor& second, const at::Tensor& lambda) {
  return lambda * first.softmax(1) + (1 - lambda) * second.softmax(1);
}

at::Tensor sharpened(const at::Tensor& probabilities) {
  const at::Tensor squares = probabilities.square();
  return squares / squares.sum(1, /*keepdim=*/true);
}

at::Tensor confident(const at::Tensor& logits) {
  return logits.mul(kTemper).softmax(1).clamp_min(kSmallest);
}

at::Tensor class_loss(const at::Tensor& probabilities, const at::Tensor& labels, bool literal) {
  return literal ? at::cross_entropy_loss(probabilities, labels)
                 : at::nll_loss(probabilities.clamp_min(kTiny).log(), labels);
}

at::Tensor divergence(const at::Tensor& first, const at::Tensor& second, bool literal) {
  const at::Tensor middle = (first + second).div(2).log();
  const at::Tensor terms =
      (first.mul(first.log() - middle) + second.mul(second.log() - middle)).div(2);
  return literal ? terms.mean() : terms.sum(1).mean();
}

at::Tensor entropy(const at::Tensor& first, const at::Tensor& second, bool literal) {
  return literal ? mean_entropy(first.softmax(1))
                 : (mean_entropy(first) + mean_entropy(second)).div(2);
}

}  // namespace winnow::fedlsr
