// Two-component Gaussian mixture of numbers, fitted by expectation maximisation.
#pragma once

#include <array>
#include <span>
#include <vector>

namespace winnow {

struct MixtureOptions {
  double tol = 1e-3;   // stop when the mean log-likelihood changes by less
  double reg = 1e-6;   // added to every variance; > 0
  int max_iter = 100;  // at least 1
};

// Component 0 is the clean one: the one with the smaller mean.
struct Mixture {
  std::array<double, 2> means{};
  std::array<double, 2> variances{};
  std::array<double, 2> weights{};
  double lower_bound = 0.0;             // mean log-likelihood before the last parameter update
  int iterations = 0;                   // 0: degenerate input, nothing was fitted
  std::vector<double> clean_posterior;  // per value: probability of component 0
  std::vector<int> labels;              // per value: the likelier component, 0 clean, 1 noisy
};

// Fits the mixture, starting from the exact 2-means (spec: label-noise 0.3). The noisy set is not a
// cut: a wide noisy component also takes values below every clean one. Fewer than 2 values, or
// values that span less than 1e-12, are all clean with posterior 1: both means are then the common
// value (0 when there is none) and the weights 1 and 0. Values that are not finite and options out
// of range are an internal error.
Mixture gmm2(std::span<const double> values, const MixtureOptions& options = {});

// The numbers of a mixture alone, component 0 the one with the smaller mean.
struct MixtureParameters {
  std::array<double, 2> means{};
  std::array<double, 2> variances{};  // positive
  std::array<double, 2> weights{};    // sum to 1

  bool operator==(const MixtureParameters&) const = default;
};
MixtureParameters parameters_of(const Mixture& mixture);

// The same fit started from a mixture that is already known instead of the 2-means.
Mixture gmm2_from(std::span<const double> values, const MixtureParameters& start,
                  const MixtureOptions& options = {});

// For every value the probability of component 0 under a mixture that is not fitted to it.
std::vector<double> clean_posteriors(std::span<const double> values,
                                     const MixtureParameters& mixture);

}  // namespace winnow
