#include "winnow/stats/vector_mixture.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <span>
#include <utility>

#include "winnow/base/math.h"
#include "winnow/base/random.h"
#include "winnow/stats/checks.h"

namespace winnow {
namespace {

using Row = std::vector<double>;
using Shares = std::vector<std::array<double, 2>>;

constexpr int kMostTurns = 300;  // of the 2-means

using Pause = std::function<void()>;

struct Component {
  Row mean;
  Rows root;              // lower triangle L of the covariance L L^T
  double log_norm = 0.0;  // log of the weight over the root of the determinant
};

double square_distance(const Row& a, const Row& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return sum;
}

Row centre_of(const Rows& rows, const Shares& shares, std::size_t component, double count) {
  Row mean(rows.front().size(), 0.0);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] += shares[k][component] * rows[k][i];
    }
  }
  for (double& value : mean) {
    value /= count;
  }
  return mean;
}

Shares hard_shares(const Rows& rows, std::uint64_t seed, const Pause& pause) {
  Stream stream(seed, "vector mixture");
  std::array<Row, 2> centres{rows[stream.below(rows.size())], {}};
  Row weights;
  for (const Row& row : rows) {
    weights.push_back(square_distance(row, centres[0]));
  }
  centres[1] = rows[stream.categorical(weights)];
  Shares shares(rows.size());
  for (int turn = 0; turn < kMostTurns; ++turn) {
    pause();
    Shares next(rows.size());
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const bool second =
          square_distance(rows[k], centres[1]) < square_distance(rows[k], centres[0]);
      next[k][second ? 1 : 0] = 1.0;
    }
    if (next == shares) {
      break;
    }
    shares = std::move(next);
    for (std::size_t c = 0; c < 2; ++c) {
      double count = 0.0;
      for (const auto& share : shares) {
        count += share[c];
      }
      if (count > 0.0) {
        centres[c] = centre_of(rows, shares, c, count);
      }
    }
  }
  return shares;
}

// The covariances of a few clients in many dimensions have no full rank; `reg` on the diagonal
// keeps every pivot positive.
Rows cholesky(Rows matrix, const Pause& pause) {
  const std::size_t size = matrix.size();
  for (std::size_t j = 0; j < size; ++j) {
    pause();
    for (std::size_t i = j; i < size; ++i) {
      double value = matrix[i][j];
      for (std::size_t k = 0; k < j; ++k) {
        value -= matrix[i][k] * matrix[j][k];
      }
      matrix[i][j] = i == j ? std::sqrt(std::max(value, DBL_MIN)) : value / matrix[j][j];
    }
  }
  return matrix;
}

Component fit(const Rows& rows, const Shares& shares, std::size_t component, double reg,
              const Pause& pause) {
  double count = 10.0 * DBL_EPSILON;
  for (const auto& share : shares) {
    count += share[component];
  }
  Component result;
  result.mean = centre_of(rows, shares, component, count);
  const std::size_t size = result.mean.size();
  Rows covariance(size, Row(size, 0.0));
  for (std::size_t k = 0; k < rows.size(); ++k) {
    pause();
    for (std::size_t i = 0; i < size; ++i) {
      const double left = shares[k][component] * (rows[k][i] - result.mean[i]);
      for (std::size_t j = 0; j <= i; ++j) {
        covariance[i][j] += left * (rows[k][j] - result.mean[j]);
      }
    }
  }
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      covariance[i][j] /= count;
    }
    covariance[i][i] += reg;
  }
  result.root = cholesky(std::move(covariance), pause);
  result.log_norm = math::log(count / static_cast<double>(rows.size()));
  for (std::size_t i = 0; i < size; ++i) {
    result.log_norm -= math::log(result.root[i][i]);
  }
  return result;
}

double log_density(const Row& row, const Component& component) {
  Row solved(row.size(), 0.0);
  double squares = 0.0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    double value = row[i] - component.mean[i];
    for (std::size_t j = 0; j < i; ++j) {
      value -= component.root[i][j] * solved[j];
    }
    solved[i] = value / component.root[i][i];
    squares += solved[i] * solved[i];
  }
  return component.log_norm -
         0.5 * (squares + static_cast<double>(row.size()) * math::log(2.0 * std::numbers::pi));
}

double expect(const Rows& rows, const std::array<Component, 2>& components, Shares& shares,
              const Pause& pause) {
  double sum = 0.0;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    pause();
    const std::array<double, 2> density{log_density(rows[k], components[0]),
                                        log_density(rows[k], components[1])};
    const double largest = std::max(density[0], density[1]);
    const double likelihood =
        largest + math::log(math::exp(density[0] - largest) + math::exp(density[1] - largest));
    shares[k] = {math::exp(density[0] - likelihood), math::exp(density[1] - likelihood)};
    sum += likelihood;
  }
  return sum / static_cast<double>(rows.size());
}

}  // namespace

// spec: rivals 2.3
VectorMixture gmm2_vectors(const Rows& rows, std::uint64_t seed, const MixtureOptions& options,
                           const std::function<void()>& pause) {
  const Pause between = pause ? pause : [] {};
  const auto both = [&](const Shares& shares) {
    return std::array{fit(rows, shares, 0, options.reg, between),
                      fit(rows, shares, 1, options.reg, between)};
  };
  VectorMixture result;
  result.labels.assign(rows.size(), 0);
  for (const Row& row : rows) {
    require_finite(std::span<const double>(row), "gmm2_vectors");
  }
  if (std::ranges::all_of(rows, [&](const Row& row) { return row == rows.front(); })) {
    result.means = {rows.empty() ? Row() : rows.front(), rows.empty() ? Row() : rows.front()};
    return result;
  }
  Shares shares = hard_shares(rows, seed, between);
  std::array<Component, 2> components;
  double previous = -std::numeric_limits<double>::infinity();
  for (int iteration = 1; iteration <= options.max_iter; ++iteration) {
    result.iterations = iteration;
    components = both(shares);
    const double bound = expect(rows, components, shares, between);
    if (std::abs(bound - previous) < options.tol) {
      break;
    }
    previous = bound;
  }
  components = both(shares);
  expect(rows, components, shares, between);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    result.labels[k] = shares[k][1] > shares[k][0] ? 1 : 0;
  }
  result.means = {components[0].mean, components[1].mean};
  return result;
}

}  // namespace winnow
