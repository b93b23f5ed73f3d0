// Min-max normalisation, as FedRN and the methods that split samples by their loss use it.
#pragma once

#include <algorithm>
#include <vector>

namespace winnow {

// (x - min) / (max - min). Values that are all equal, or nearly (they span less than 1e-12, as in
// gmm2), become 1 (spec: label-noise B.4 #13).
inline std::vector<double> min_max(std::vector<double> values) {
  if (values.empty()) {
    return values;
  }
  const auto [low, high] = std::ranges::minmax(values);
  const double span = high - low;
  for (double& value : values) {
    value = span < 1e-12 ? 1.0 : (value - low) / span;
  }
  return values;
}

}  // namespace winnow
