// Which samples are clean by their losses, and the chosen ones as a set of their own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/train/plan.h"

namespace winnow {

// For every sample the probability that it belongs to the mixture component with the smaller
// losses, after min-max normalisation (spec: label-noise B.3 cleanprob). Losses that are all equal,
// and losses that are not all finite, say nothing: every sample is clean with probability 1.
[[nodiscard]] std::vector<double> clean_probability(std::vector<double> losses);

// Reliabilities (the client's own first) divided by their sum; equal weights when all are zero.
[[nodiscard]] std::vector<double> vote_weights(std::span<const double> reliability);

// q_i = sum_j weights_j * votes[j][i]; at least one voter, as many weights as voters.
[[nodiscard]] std::vector<double> joint_probability(const std::vector<std::vector<double>>& votes,
                                                    std::span<const double> weights);

// The samples with a probability above the threshold; when there is none, every sample.
[[nodiscard]] std::vector<bool> clean_mask(std::span<const double> probability, double threshold);

// The marked samples of a local set, as a set of its own.
class Subset {
 public:
  Subset(const LocalSet& set, const std::vector<bool>& mask);

  // Valid as long as the subset is.
  LocalSet set() const { return {samples_, labels_}; }

 private:
  std::vector<std::int64_t> samples_;
  std::vector<std::int64_t> labels_;
};

}  // namespace winnow
