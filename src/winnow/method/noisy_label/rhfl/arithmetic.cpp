#include "winnow/method/noisy_label/rhfl/arithmetic.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "winnow/base/math.h"
#include "winnow/train/soft_loss.h"

namespace winnow::rhfl {
namespace {

constexpr double kSmallestSum = 1e-8;
constexpr double kSmallestLoss = 1e-12;
constexpr double kLogOfZero = -9.210340371976182;  // ln(1e-4), for the label's zeros
constexpr double kSmallestProbability = 1e-7;

}  // namespace

std::vector<double> improvement_shares(std::span<const double> before,
                                       std::span<const double> now) {
  std::vector<double> shares;
  double sum = 0.0;
  for (std::size_t k = 0; k < now.size(); ++k) {
    shares.push_back((before[k] - now[k]) / std::max(now[k], kSmallestLoss));
    sum += shares.back();
  }
  for (double& share : shares) {
    share = sum > kSmallestSum ? share / sum : 0.0;
  }
  return shares;
}

std::vector<double> confidence_weights(std::span<const double> shares, double beta) {
  if (shares.empty()) {
    return {};
  }
  const double largest = *std::ranges::max_element(shares);
  std::vector<double> weights;
  double sum = 0.0;
  for (const double share : shares) {
    weights.push_back(math::exp(beta * (share - largest)));
    sum += weights.back();
  }
  for (double& weight : weights) {
    weight /= sum;
  }
  return weights;
}

std::vector<std::vector<float>> mixtures(std::span<const double> weights,
                                         const std::vector<std::vector<float>>& outputs) {
  std::size_t size = 0;
  for (const std::vector<float>& output : outputs) {
    size = std::max(size, output.size());
  }
  std::vector<double> total(size, 0.0);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    for (std::size_t i = 0; weights[k] != 0.0 && i < size; ++i) {
      total[i] += weights[k] * static_cast<double>(outputs[k][i]);
    }
  }
  std::vector<std::vector<float>> mixed;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    std::vector<float> others(size);
    for (std::size_t i = 0; i < size; ++i) {
      const double own = weights[k] != 0.0 ? weights[k] * static_cast<double>(outputs[k][i]) : 0.0;
      others[i] = static_cast<float>(std::max(0.0, total[i] - own));
    }
    mixed.push_back(std::move(others));
  }
  return mixed;
}

at::Tensor symmetric_cross_entropies(const at::Tensor& logits, const at::Tensor& labels,
                                     double alpha, double beta) {
  const at::Tensor log_p = logits.log_softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1);
  const at::Tensor p = log_p.exp().clamp_min(kSmallestProbability);
  return log_p * -alpha + (1.0 - p) * (-kLogOfZero * beta);
}

at::Tensor distillation_loss(const at::Tensor& logits, const at::Tensor& target) {
  return soft_cross_entropies(logits, target).mean();
}

}  // namespace winnow::rhfl
