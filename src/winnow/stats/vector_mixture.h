// Two-component Gaussian mixture of vectors with full covariances, for methods that tell clients
// apart by more than one number.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "winnow/stats/mixture.h"

namespace winnow {

using Rows = std::vector<std::vector<double>>;  // one vector per row, all of the same length

struct VectorMixture {
  std::vector<int> labels;  // per row: the likelier component
  Rows means;               // two of them
  int iterations = 0;       // 0: degenerate input, all rows are of component 0
};

// Expectation maximisation from a 2-means whose two first centres are drawn from `seed`: the first
// uniformly, the second with a chance that grows with the square of its distance. Fewer than two
// different rows are all of component 0. Values that are not finite are an internal error. Memory
// grows with the square of the rows' length, time with its cube: `pause` is called again and again,
// at most some millions of multiplications apart, and ends the search by throwing.
VectorMixture gmm2_vectors(const Rows& rows, std::uint64_t seed, const MixtureOptions& options = {},
                           const std::function<void()>& pause = {});

}  // namespace winnow
