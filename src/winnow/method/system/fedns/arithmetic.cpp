#include "winnow/method/system/fedns/arithmetic.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "winnow/train/loss.h"

namespace winnow::fedns {
namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double variance_of(std::span<const double> values) {
  const double mean = mean_of(values);
  const double squares = std::accumulate(
      values.begin(), values.end(), 0.0,
      [mean](double sum, double value) { return sum + (value - mean) * (value - mean); });
  return squares / static_cast<double>(values.size());
}

double median_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2.0;
}

}  // namespace

at::Tensor head_gradient(const at::Tensor& features, const at::Tensor& logits,
                         const at::Tensor& labels, double temperature) {
  const at::Tensor p = at::softmax(logits / temperature, 1);
  const auto classes = static_cast<double>(logits.size(1));
  const at::Tensor residual = labels.defined()
                                  ? p - at::zeros_like(p).scatter_(1, labels.unsqueeze(1), 1.0)
                                  : p * classes - 1.0;
  return residual.t().matmul(features) / (static_cast<double>(features.size(0)) * temperature);
}

at::Tensor score_loss(const at::Tensor& logits, const at::Tensor& labels, double temperature) {
  if (labels.defined()) {
    return smoothed_cross_entropy(logits, labels, 0.0, temperature);
  }
  return at::log_softmax(logits / temperature, 1).sum(1).neg().mean();
}

at::Tensor gradient_norm(const at::Tensor& gradient, std::int64_t norm) {
  const at::Tensor size = gradient.abs().to(at::kDouble);
  return norm == 1 ? size.sum() : size.square().sum().sqrt();
}

std::vector<double> gradient_norms(Scorer& scorer, std::span<const std::int64_t> samples,
                                   const at::Tensor& labels, const ScoreRule& rule) {
  const std::int64_t count = std::ssize(samples);
  const auto batch_labels = [&](std::int64_t start) {
    return rule.loss == ScoreTarget::label
               ? labels.narrow(0, start, std::min(rule.batch, count - start))
               : at::Tensor();
  };
  std::vector<at::Tensor> norms;
  if (rule.layer.empty()) {
    std::int64_t start = 0;
    scorer.each_batch(
        scorer.feed(), samples, rule.batch, {}, rule.uses_batch_statistics(),
        [&](const at::Tensor& features, const at::Tensor& logits) {
          norms.push_back(gradient_norm(
              head_gradient(features, logits, batch_labels(start), rule.temperature), rule.norm));
          start += features.size(0);
        });
  } else {
    scorer.each_gradient(
        samples, rule.batch, rule.uses_batch_statistics(), rule.layer,
        [&](const at::Tensor& logits, std::int64_t start) {
          return score_loss(logits, batch_labels(start), rule.temperature);
        },
        [&](const at::Tensor& gradient) { norms.push_back(gradient_norm(gradient, rule.norm)); });
  }
  if (norms.empty()) {
    return {};
  }
  const at::Tensor measured = at::stack(norms).cpu();
  return {measured.data_ptr<double>(), measured.data_ptr<double>() + measured.numel()};
}

double statistic_of(std::span<const double> norms, Statistic statistic) {
  if (norms.empty() || !std::ranges::all_of(norms, [](double n) { return std::isfinite(n); })) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (statistic == Statistic::var) {
    return variance_of(norms);
  }
  return statistic == Statistic::median ? median_of(norms) : mean_of(norms);
}

}  // namespace winnow::fedns
