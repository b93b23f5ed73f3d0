#include "winnow/stats/correlation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string_view>

#include "winnow/base/error.h"
#include "winnow/stats/checks.h"

namespace winnow {
namespace {

void require_pairs(std::size_t left, std::size_t right, std::string_view statistic) {
  if (left != right) {
    throw Error(ErrorKind::internal,
                fmt::format("{}: {} values against {}, expected as many on either side", statistic,
                            left, right));
  }
}

bool constant(std::span<const double> values) {
  const auto [low, high] = std::ranges::minmax(values);
  return low == high;
}

}  // namespace

std::optional<double> pearson(std::span<const double> x, std::span<const double> y) {
  require_pairs(x.size(), y.size(), "pearson");
  require_finite(x, "pearson");
  require_finite(y, "pearson");
  if (x.size() < 2 || constant(x) || constant(y)) {
    return std::nullopt;
  }
  const double mean_x = mean_of(x);
  const double mean_y = mean_of(y);
  double xx = 0.0;
  double yy = 0.0;
  double xy = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  return std::clamp(xy / (std::sqrt(xx) * std::sqrt(yy)), -1.0, 1.0);
}

std::optional<double> roc_area(std::span<const double> scores, const std::vector<bool>& positive) {
  require_pairs(scores.size(), positive.size(), "roc_area");
  require_finite(scores, "roc_area");
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [scores](std::size_t i) { return scores[i]; });
  double positives = 0.0;
  double negatives = 0.0;  // among the items below the current group of equal scores
  double wins = 0.0;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    double group_positives = 0.0;
    double group_negatives = 0.0;
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end) {
      (positive[order[end]] ? group_positives : group_negatives) += 1.0;
    }
    wins += group_positives * (negatives + 0.5 * group_negatives);
    positives += group_positives;
    negatives += group_negatives;
  }
  if (positives == 0.0 || negatives == 0.0) {
    return std::nullopt;
  }
  return wins / (positives * negatives);
}

}  // namespace winnow
