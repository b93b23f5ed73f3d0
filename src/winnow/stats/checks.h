// What every statistic asks of its input, and the mean they share.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <string_view>

#include "winnow/base/error.h"

namespace winnow {

// Throws an internal error that names the first value that is NaN or infinite, if there is one.
template <typename T>
void require_finite(std::span<const T> values, std::string_view statistic) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      throw Error(ErrorKind::internal,
                  fmt::format("{}: value {} of {} is {}, expected finite values", statistic, i,
                              values.size(), values[i]));
    }
  }
}

inline double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace winnow
