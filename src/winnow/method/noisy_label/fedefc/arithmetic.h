// The arithmetic of FedEFC, free of messages and of clients (spec: rivals 5).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace winnow::fedefc {

// The mean probability of a class over the samples that were given it, at least 2e-6; 2, which none
// reaches, for a class that no sample was given. `probabilities` are rows of `classes` values, one
// row per label.
std::vector<double> thresholds(std::span<const double> probabilities,
                               std::span<const std::int64_t> labels, std::size_t classes);

// Samples by given label (row) and by the class they are confidently of: a sample counts where some
// probability reaches its class's threshold less 1e-6, for that class, or for the most probable of
// all where several do. The diagonal is at least 1. Row-major.
std::vector<double> count_matrix(std::span<const double> probabilities,
                                 std::span<const std::int64_t> labels, std::size_t classes);

// T[i][j] = N[i][j] / sum_i N[i][j], the chance of the given label i where j is true. With `prior`
// every row is weighted by how often its label was given before columns are scaled to 1.
std::vector<double> transition(std::span<const double> counts, std::span<const double> prior,
                               std::size_t classes);

// How often each class was given, as shares.
std::vector<double> frequencies(std::span<const std::int64_t> labels, std::size_t classes);

// Watches the mean training accuracy of the rounds after `from` and stops once it has not exceeded
// its best for `patience` of them.
struct Watch {
  double best = 0.0;
  std::int64_t waited = 0;
  bool stopped = false;

  void see(double accuracy, std::int64_t round, std::int64_t from, std::int64_t patience);
};

}  // namespace winnow::fedefc
