#include "winnow/train/soft_loss.h"

#include <ATen/ATen.h>

#include "winnow/base/math.h"

namespace winnow {

at::Tensor smoothed_cross_entropies(const at::Tensor& logits, const at::Tensor& labels,
                                    double label_smoothing, double temperature) {
  constexpr std::int64_t kIgnoreNothing = -100;
  const at::Tensor scaled = temperature == 1.0 ? logits : logits.div(temperature);
  return at::cross_entropy_loss(scaled, labels, {}, at::Reduction::None, kIgnoreNothing,
                                label_smoothing);
}

at::Tensor soft_cross_entropies(const at::Tensor& logits, const at::Tensor& targets) {
  return -(targets * logits.log_softmax(1)).sum(1);
}

at::Tensor entropies(const at::Tensor& logits) {
  return soft_cross_entropies(logits, logits.softmax(1));
}

at::Tensor uniformity_penalty(const at::Tensor& logits) {
  const auto batch = static_cast<double>(logits.size(0));
  const auto classes = static_cast<double>(logits.size(1));
  // The mean prediction stays a logarithm: as a probability it may underflow.
  const at::Tensor log_mean = logits.log_softmax(1).logsumexp(0) - math::log(batch);
  return -log_mean.mean() - math::log(classes);
}

at::Tensor one_hot_rows(const at::Tensor& labels, std::int64_t classes) {
  // at::one_hot looks at its input from the host.
  const at::Tensor all = at::arange(classes, labels.options());
  return labels.unsqueeze(1).eq(all).to(at::kFloat);
}

at::Tensor smallest(const at::Tensor& values, const at::Tensor& count) {
  const at::Tensor order = values.detach().argsort(/*stable=*/true, 0, /*descending=*/false);
  return order.argsort(/*stable=*/true, 0, /*descending=*/false).lt(count).to(at::kFloat);
}

at::Tensor chosen_mean(const at::Tensor& values, const at::Tensor& weights) {
  return (values * weights).sum() / weights.sum().clamp_min(1);
}

}  // namespace winnow
