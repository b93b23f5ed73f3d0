#include "winnow/stats/two_means.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "winnow/base/error.h"
#include "winnow/stats/checks.h"

namespace winnow {
namespace {

// Splits that are equal on paper differ by rounding; within this share of the total sum of squares
// they count as tied, which keeps the choice the same under shifts and changes of scale.
constexpr double kTieTolerance = 1e-12;

double squares_around(std::span<const double> values, double centre) {
  return std::accumulate(values.begin(), values.end(), 0.0, [centre](double sum, double value) {
    return sum + (value - centre) * (value - centre);
  });
}

// spec: label-noise 0.3; input-noise 1.3 #2. Of equal splits the first, with the smaller left
// group.
std::size_t best_split(std::span<const double> sorted) {
  const std::size_t n = sorted.size();
  const double mean = mean_of(sorted);  // sums of centred values cancel least
  double total = 0.0;
  double squares = 0.0;
  for (const double value : sorted) {
    total += value - mean;
    squares += (value - mean) * (value - mean);
  }
  std::vector<double> inertia(n - 1);
  double left = 0.0;
  for (std::size_t c = 1; c < n; ++c) {
    left += sorted[c - 1] - mean;
    const double right = total - left;
    inertia[c - 1] =
        squares - left * left / static_cast<double>(c) - right * right / static_cast<double>(n - c);
  }
  const double limit = *std::ranges::min_element(inertia) + kTieTolerance * squares;
  const auto first =
      std::ranges::find_if(inertia, [limit](double value) { return value <= limit; });
  return static_cast<std::size_t>(first - inertia.begin()) + 1;
}

}  // namespace

TwoMeans two_means(std::span<const double> values) {
  const std::size_t n = values.size();
  if (n < 2) {
    throw Error(ErrorKind::internal, fmt::format("two_means: {} values, expected at least 2", n));
  }
  require_finite(values, "two_means");
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [values](std::size_t i) { return values[i]; });
  std::vector<double> sorted(n);
  std::ranges::transform(order, sorted.begin(), [values](std::size_t i) { return values[i]; });

  TwoMeans result;
  result.split = best_split(sorted);
  const std::span<const double> all(sorted);
  const auto lower = all.first(result.split);
  const auto upper = all.subspan(result.split);
  result.centres = {mean_of(lower), mean_of(upper)};
  result.inertia =
      squares_around(lower, result.centres[0]) + squares_around(upper, result.centres[1]);
  result.labels.assign(n, 0);
  for (std::size_t c = result.split; c < n; ++c) {
    result.labels[order[c]] = 1;
  }
  return result;
}

}  // namespace winnow
