#include "winnow/method/noisy_label/fedefc/arithmetic.h"

#include <algorithm>

namespace winnow::fedefc {
namespace {

constexpr double kLeastThreshold = 2e-6;
constexpr double kTolerance = 1e-6;
constexpr double kUnreachable = 2.0;

}  // namespace

// spec: rivals 5.2
std::vector<double> thresholds(std::span<const double> probabilities,
                               std::span<const std::int64_t> labels, std::size_t classes) {
  std::vector<double> sums(classes, 0.0);
  std::vector<double> counts(classes, 0.0);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(labels[i]);
    sums[label] += probabilities[i * classes + label];
    counts[label] += 1.0;
  }
  for (std::size_t c = 0; c < classes; ++c) {
    sums[c] = counts[c] > 0.0 ? std::max(sums[c] / counts[c], kLeastThreshold) : kUnreachable;
  }
  return sums;
}

// spec: rivals 5.3
std::vector<double> count_matrix(std::span<const double> probabilities,
                                 std::span<const std::int64_t> labels, std::size_t classes) {
  const std::vector<double> limits = thresholds(probabilities, labels, classes);
  std::vector<double> counts(classes * classes, 0.0);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::span<const double> p = probabilities.subspan(i * classes, classes);
    std::size_t reached = 0;
    std::size_t guess = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      if (p[c] >= limits[c] - kTolerance) {
        guess = reached == 0 ? c : guess;
        ++reached;
      }
    }
    if (reached > 1) {
      guess = static_cast<std::size_t>(std::ranges::max_element(p) - p.begin());
    }
    if (reached > 0) {
      counts[static_cast<std::size_t>(labels[i]) * classes + guess] += 1.0;
    }
  }
  for (std::size_t c = 0; c < classes; ++c) {
    counts[c * classes + c] = std::max(1.0, counts[c * classes + c]);
  }
  return counts;
}

// spec: rivals 5.4
std::vector<double> transition(std::span<const double> counts, std::span<const double> prior,
                               std::size_t classes) {
  std::vector<double> matrix(counts.begin(), counts.end());
  for (std::size_t j = 0; j < classes; ++j) {
    double sum = 0.0;
    for (std::size_t i = 0; i < classes; ++i) {
      matrix[i * classes + j] *= prior.empty() ? 1.0 : prior[i];
      sum += matrix[i * classes + j];
    }
    for (std::size_t i = 0; i < classes; ++i) {
      // A class that nobody was given and nobody counts for stays what it is.
      matrix[i * classes + j] = sum > 0.0 ? matrix[i * classes + j] / sum : (i == j ? 1.0 : 0.0);
    }
  }
  return matrix;
}

std::vector<double> frequencies(std::span<const std::int64_t> labels, std::size_t classes) {
  std::vector<double> shares(classes, 0.0);
  for (const std::int64_t label : labels) {
    shares[static_cast<std::size_t>(label)] += 1.0 / static_cast<double>(labels.size());
  }
  return shares;
}

// spec: rivals 5.1
void Watch::see(double accuracy, std::int64_t round, std::int64_t from, std::int64_t patience) {
  if (stopped || round <= from) {
    return;
  }
  if (accuracy > best) {
    best = accuracy;
    waited = 0;
  } else {
    ++waited;
  }
  stopped = waited >= patience;
}

}  // namespace winnow::fedefc
