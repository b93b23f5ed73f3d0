// Exact one-dimensional 2-means.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace winnow {

struct TwoMeans {
  std::size_t split = 0;            // size of the group with the smaller values
  std::array<double, 2> centres{};  // mean of the lower and of the upper group
  double inertia = 0.0;             // sum of squared distances to the own centre
  std::vector<int> labels;          // per input value: 0 lower group, 1 upper group
};

// The split of the sorted values with the least inertia; of equally good splits the one with the
// smaller lower group. Needs at least 2 finite values (internal error otherwise). When all values
// are equal the first of them is the lower group: callers that care test for that before.
TwoMeans two_means(std::span<const double> values);

}  // namespace winnow
