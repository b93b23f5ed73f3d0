// ARFL, residual-based reweighting (spec: baselines 14): a line is fitted through the sorted values
// of every coordinate; a client counts as little as its values lie off these lines.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/federation/robust/robust_blocks.h"
#include "winnow/model/state.h"

namespace winnow {

struct ArflOptions {
  double lambda = 2.0;  // how far from the line a value may lie
  double delta = 0.1;   // a value whose confidence is below is replaced by the line's
};

// What ARFL finds out about the values of one coordinate, in the order of the clients.
struct ArflColumn {
  double slope = 0.0;      // B
  double intercept = 0.0;  // A
  double scale = 0.0;      // tau
  std::vector<double> fitted;
  std::vector<double> confidence;  // omega
  double spread = 0.0;             // sample standard deviation of omega
};
ArflColumn arfl_column(std::span<const float> values, const ArflOptions& options = {});

// How far a confidence may reach before it falls below one, by rank: lambda sqrt(2/K) sqrt(1 - h).
std::vector<double> arfl_limits(std::int64_t clients, double lambda);

// Sums of contributions made into weights: divided by the largest, squared, normalised; all equal
// when there are no contributions.
std::vector<double> arfl_weights(std::span<const double> contributions);

struct Arfl {
  State model;
  std::vector<double>
      weights;  // of the clients, adding up to one; 0 for a model that is not finite
};

// Two passes over the models; beside them it holds two numbers per coordinate. Models that are not
// finite are left out first; of one or two that are left it is the coordinate median. Tensors
// without dimensions do not contribute to the weights. Counters are weighted like the clients.
// Throws Error(kind run) when no model is finite.
Arfl arfl(std::span<const State> models, const ArflOptions& options = {},
          std::size_t threads = aggregation_threads());

}  // namespace winnow
