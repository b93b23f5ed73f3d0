#include "winnow/train/loss.h"

#include <ATen/ATen.h>

#include "winnow/train/gpu/gpu_loss.h"

namespace winnow {

at::Tensor smoothed_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                  double label_smoothing, double temperature) {
  if (has_gpu_cross_entropy(logits)) {
    return gpu_cross_entropy(logits, labels, label_smoothing, temperature);
  }
  constexpr std::int64_t kIgnoreNothing = -100;
  const at::Tensor scaled = temperature == 1.0 ? logits : logits.div(temperature);
  return at::cross_entropy_loss(scaled, labels, {}, at::Reduction::Mean, kIgnoreNothing,
                                label_smoothing);
}

at::Tensor losses(const at::Tensor& logits, const at::Tensor& labels) {
  return at::cross_entropy_loss(logits.detach(), labels, {}, at::Reduction::None);
}

at::Tensor double_softmax_losses(const at::Tensor& logits, const at::Tensor& labels) {
  return losses(logits.detach().softmax(1), labels);
}

}  // namespace winnow
