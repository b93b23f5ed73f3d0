#include "winnow/method/clean_set.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "winnow/stats/min_max.h"
#include "winnow/stats/mixture.h"

namespace winnow {

std::vector<double> clean_probability(std::vector<double> losses) {
  if (!std::ranges::all_of(losses, [](double loss) { return std::isfinite(loss); })) {
    return std::vector<double>(losses.size(), 1.0);
  }
  // spec: label-noise 0.3, the settings of FedRN
  return gmm2(min_max(std::move(losses)), {.tol = 1e-2, .reg = 5e-4}).clean_posterior;
}

std::vector<double> vote_weights(std::span<const double> reliability) {
  const double sum = std::accumulate(reliability.begin(), reliability.end(), 0.0);
  std::vector<double> weights(reliability.begin(), reliability.end());
  for (double& weight : weights) {
    weight = sum > 0.0 ? weight / sum : 1.0 / static_cast<double>(reliability.size());
  }
  return weights;
}

std::vector<double> joint_probability(const std::vector<std::vector<double>>& votes,
                                      std::span<const double> weights) {
  std::vector<double> joint(votes.front().size(), 0.0);
  for (std::size_t voter = 0; voter < votes.size(); ++voter) {
    for (std::size_t i = 0; i < joint.size(); ++i) {
      joint[i] += weights[voter] * votes[voter][i];
    }
  }
  return joint;
}

std::vector<bool> clean_mask(std::span<const double> probability, double threshold) {
  std::vector<bool> mask(probability.size());
  bool any = false;
  for (std::size_t i = 0; i < probability.size(); ++i) {
    mask[i] = probability[i] > threshold;
    any = any || mask[i];
  }
  return any ? mask : std::vector<bool>(probability.size(), true);
}

Subset::Subset(const LocalSet& set, const std::vector<bool>& mask) {
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i]) {
      samples_.push_back(set.samples[i]);
      labels_.push_back(set.labels[i]);
    }
  }
}

}  // namespace winnow
