#include "winnow/stats/mixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/math.h"
#include "winnow/stats/checks.h"
#include "winnow/stats/two_means.h"

namespace winnow {
namespace {

constexpr double kDegenerateSpan = 1e-12;

using Parameters = MixtureParameters;

// One pair per value: the probability of either component.
using Responsibilities = std::vector<std::array<double, 2>>;

void check_options(const MixtureOptions& options) {
  if (!(options.tol >= 0.0) || !(options.reg > 0.0) || options.max_iter < 1) {
    throw Error(ErrorKind::internal,
                fmt::format("gmm2: tol {}, reg {}, max_iter {}, expected tol >= 0, reg > 0 and "
                            "max_iter >= 1",
                            options.tol, options.reg, options.max_iter));
  }
}

bool degenerate(std::span<const double> values) {
  if (values.size() < 2) {
    return true;
  }
  const auto [low, high] = std::ranges::minmax(values);
  return high - low < kDegenerateSpan;
}

Mixture all_clean(std::span<const double> values, double reg) {
  const double value = values.empty() ? 0.0 : values.front();
  Mixture result;
  result.means = {value, value};
  result.variances = {reg, reg};
  result.weights = {1.0, 0.0};
  result.clean_posterior.assign(values.size(), 1.0);
  result.labels.assign(values.size(), 0);
  return result;
}

Responsibilities hard_start(std::span<const double> values) {
  const TwoMeans start = two_means(values);
  Responsibilities result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    result[i][static_cast<std::size_t>(start.labels[i])] = 1.0;
  }
  return result;
}

Parameters m_step(std::span<const double> values, const Responsibilities& shares, double reg) {
  Parameters result;
  for (std::size_t c = 0; c < 2; ++c) {
    double count = 10.0 * DBL_EPSILON;  // keeps an empty component from dividing by zero
    double sum = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      count += shares[i][c];
      sum += shares[i][c] * values[i];
    }
    const double mean = sum / count;
    double squares = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      squares += shares[i][c] * (values[i] - mean) * (values[i] - mean);
    }
    result.means[c] = mean;
    result.variances[c] = squares / count + reg;
    result.weights[c] = count / static_cast<double>(values.size());
  }
  return result;
}

// Writes the responsibilities under `parameters` and returns their mean log-likelihood.
double e_step(std::span<const double> values, const Parameters& parameters,
              Responsibilities& shares) {
  std::array<double, 2> constant{};
  for (std::size_t c = 0; c < 2; ++c) {
    constant[c] = math::log(parameters.weights[c]) -
                  0.5 * (math::log(2.0 * std::numbers::pi) + math::log(parameters.variances[c]));
  }
  double sum = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::array<double, 2> density{};  // logarithms
    for (std::size_t c = 0; c < 2; ++c) {
      const double distance = values[i] - parameters.means[c];
      density[c] = constant[c] - 0.5 * distance * distance / parameters.variances[c];
    }
    const double largest = std::max(density[0], density[1]);
    const double likelihood =
        largest + math::log(math::exp(density[0] - largest) + math::exp(density[1] - largest));
    shares[i] = {math::exp(density[0] - likelihood), math::exp(density[1] - likelihood)};
    sum += likelihood;
  }
  return sum / static_cast<double>(values.size());
}

void normalise(std::array<double, 2>& weights) {
  const double sum = weights[0] + weights[1];
  weights = {weights[0] / sum, weights[1] / sum};
}

// Expectation maximisation may exchange the order the start had.
void order_by_mean(Parameters& parameters) {
  if (parameters.means[1] < parameters.means[0]) {
    std::swap(parameters.means[0], parameters.means[1]);
    std::swap(parameters.variances[0], parameters.variances[1]);
    std::swap(parameters.weights[0], parameters.weights[1]);
  }
}

Mixture maximise(std::span<const double> values, Parameters parameters,
                 const MixtureOptions& options) {
  Mixture result;
  Responsibilities shares(values.size());
  double previous = -std::numeric_limits<double>::infinity();
  for (int iteration = 1; iteration <= options.max_iter; ++iteration) {
    result.iterations = iteration;
    result.lower_bound = e_step(values, parameters, shares);
    parameters = m_step(values, shares, options.reg);
    normalise(parameters.weights);
    if (std::abs(result.lower_bound - previous) < options.tol) {
      break;
    }
    previous = result.lower_bound;
  }
  order_by_mean(parameters);
  e_step(values, parameters, shares);

  result.means = parameters.means;
  result.variances = parameters.variances;
  result.weights = parameters.weights;
  result.clean_posterior.reserve(values.size());
  result.labels.reserve(values.size());
  for (const auto& share : shares) {
    result.clean_posterior.push_back(share[0]);
    result.labels.push_back(share[1] > share[0] ? 1 : 0);
  }
  return result;
}

}  // namespace

// spec: label-noise 0.3
Mixture gmm2(std::span<const double> values, const MixtureOptions& options) {
  check_options(options);
  require_finite(values, "gmm2");
  if (degenerate(values)) {
    return all_clean(values, options.reg);
  }
  return maximise(values, m_step(values, hard_start(values), options.reg), options);
}

MixtureParameters parameters_of(const Mixture& mixture) {
  return {mixture.means, mixture.variances, mixture.weights};
}

// spec: rivals 1.5
Mixture gmm2_from(std::span<const double> values, const MixtureParameters& start,
                  const MixtureOptions& options) {
  check_options(options);
  require_finite(values, "gmm2");
  if (degenerate(values)) {
    return all_clean(values, options.reg);
  }
  return maximise(values, start, options);
}

std::vector<double> clean_posteriors(std::span<const double> values,
                                     const MixtureParameters& mixture) {
  Responsibilities shares(values.size());
  e_step(values, mixture, shares);
  std::vector<double> clean;
  clean.reserve(values.size());
  for (const auto& share : shares) {
    clean.push_back(share[0]);
  }
  return clean;
}

}  // namespace winnow
