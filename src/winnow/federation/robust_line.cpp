#include "winnow/federation/robust_line.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace winnow {
namespace {

constexpr int kMostProbes = 6;
constexpr std::int64_t kFewEnough = 10;  // inner medians per column that are not worth a probe
constexpr std::int64_t kStraddling = 8;  // more of them, when inner medians are means of two slopes
constexpr float kMargin = 2.0F;          // how far outside the middle a probe aims, in places
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The mean of the numbers at two neighbouring places, or at one, of the sorted order.
double middle_of(std::vector<double>& numbers, std::int32_t low, std::int32_t high) {
  const auto place = numbers.begin() + high;
  std::nth_element(numbers.begin(), place, numbers.end());
  return low == high ? *place : 0.5 * (*std::max_element(numbers.begin(), place) + *place);
}

}  // namespace

void rank_columns(const float* tile, std::int64_t rows, std::int32_t* ranks) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* __restrict value = tile + i * kLanes;
    std::int32_t smaller[kLanes] = {};
    for (std::int64_t j = 0; j < i; ++j) {
      const float* __restrict earlier = tile + j * kLanes;
      std::int32_t* __restrict rank = ranks + j * kLanes;
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        const std::int32_t first = earlier[lane] <= value[lane] ? 1 : 0;
        smaller[lane] += first;
        rank[lane] += 1 - first;
      }
    }
    std::copy_n(smaller, kLanes, ranks + i * kLanes);
  }
}

SlopeFinder::SlopeFinder(std::int64_t rows)
    : rows_(rows),
      outer_low_(static_cast<std::int32_t>((rows + 1) / 2)),
      outer_high_(static_cast<std::int32_t>(rows / 2 + 1)),
      inner_low_(static_cast<std::int32_t>(rows / 2)),
      inner_high_(static_cast<std::int32_t>((rows - 1) / 2 + 1)),
      brackets_(kLanes),
      levels_(static_cast<std::size_t>(rows * kLanes)),
      counts_(levels_.size()),
      counts_low_(levels_.size()),
      counts_high_(levels_.size()),
      column_(static_cast<std::size_t>(rows)),
      slopes_(column_.size()) {
  for (std::int64_t d = 1 - rows; d < rows; ++d) {
    reciprocals_.push_back(d == 0 ? 0.0 : 1.0 / static_cast<double>(d));
  }
}

void SlopeFinder::operator()(const float* sorted, double* slopes) {
  start(sorted);
  for (int probe = 0;
       probe < kMostProbes && undecided() > (kFewEnough + rows_ % 2 * kStraddling) * kLanes;
       ++probe) {
    count(sorted);
    narrow();
  }
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    slopes[lane] = finish(sorted, lane);
  }
}

std::int64_t SlopeFinder::undecided() const {
  std::int64_t sum = 0;
  for (const Bracket& bracket : brackets_) {
    sum += bracket.inside();
  }
  return sum;
}

void SlopeFinder::start(const float* sorted) {
  const std::int64_t half = rows_ / 2;
  const std::int64_t most = half + rows_ % 2;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    const auto width = [&](std::int64_t i, std::int64_t steps) {
      return sorted[(i + steps) * kLanes + lane] - sorted[i * kLanes + lane];
    };
    float densest = width(0, half);
    bool flat = false;
    for (std::int64_t i = 0; i + half < rows_; ++i) {
      densest = std::min(densest, width(i, half));
      flat = flat || (i + most < rows_ && width(i, most) == 0.0F);
    }
    Bracket& bracket = brackets_[static_cast<std::size_t>(lane)];
    bracket = {};
    bracket.flat = flat;
    bracket.probing = !flat && std::isfinite(width(0, rows_ - 1));
    bracket.start = bracket.low = bracket.probing ? densest / static_cast<float>(half) : 0.0F;
    bracket.below_high = flat ? 0 : static_cast<std::int32_t>(rows_);
    // Where the middle one is found for normally distributed values.
    bracket.probe = bracket.start * (1.0F + 1.7F / std::sqrt(static_cast<float>(rows_)));
  }
  std::ranges::fill(counts_low_, 0);
  std::ranges::fill(counts_high_, static_cast<std::int32_t>(rows_));
}

void SlopeFinder::count(const float* sorted) {
  const std::int64_t centre = rows_ / 2;
  const float* middle = sorted + centre * kLanes;
  float probe[kLanes];
  std::ranges::transform(brackets_, probe, &Bracket::probe);
  for (std::int64_t i = 0; i < rows_; ++i) {
    const float* __restrict value = sorted + i * kLanes;
    float* __restrict level = levels_.data() + i * kLanes;
    const auto x = static_cast<float>(i - centre);
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      // The middle is subtracted first, so that float32 rounds the small difference only.
      level[lane] = (value[lane] - middle[lane]) - probe[lane] * x;
    }
  }
  for (std::int64_t i = 0; i < rows_; ++i) {
    const float* __restrict level = levels_.data() + i * kLanes;
    std::int32_t sum[kLanes] = {};
    for (std::int64_t j = 0; j < i; ++j) {
      const float* __restrict earlier = levels_.data() + j * kLanes;
      std::int32_t* __restrict counts = counts_.data() + j * kLanes;
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        const std::int32_t inverted = earlier[lane] >= level[lane] ? 1 : 0;
        sum[lane] += inverted;
        counts[lane] += inverted;
      }
    }
    std::copy_n(sum, kLanes, counts_.data() + i * kLanes);
  }
}

void SlopeFinder::narrow() {
  // An inner median is at most the probe for certain, or above it for certain; between two middle
  // slopes it may be either.
  std::int32_t at_most[kLanes] = {};
  std::int32_t above[kLanes] = {};
  for (std::int64_t i = 0; i < rows_; ++i) {
    const std::int32_t* __restrict counts = counts_.data() + i * kLanes;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      at_most[lane] += counts[lane] >= inner_high_ ? 1 : 0;
      above[lane] += counts[lane] < inner_low_ ? 1 : 0;
    }
  }
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    Bracket& bracket = brackets_[static_cast<std::size_t>(lane)];
    if (!bracket.probing) {
      continue;
    }
    const auto keep_counts = [&](std::vector<std::int32_t>& to) {
      for (std::int64_t i = lane; i < rows_ * kLanes; i += kLanes) {
        to[static_cast<std::size_t>(i)] = counts_[static_cast<std::size_t>(i)];
      }
    };
    if (rows_ - above[lane] < outer_low_) {
      bracket.low = bracket.probe;
      bracket.has_low = true;
      bracket.below_low = at_most[lane];
      keep_counts(counts_low_);
    } else if (at_most[lane] >= outer_high_) {
      bracket.high = bracket.probe;
      bracket.below_high = static_cast<std::int32_t>(rows_) - above[lane];
      bracket.has_high = true;
      keep_counts(counts_high_);
    }
    choose_probe(bracket);
  }
}

void SlopeFinder::choose_probe(Bracket& bracket) const {
  // Aim a little outside the middle, on the side that is farther from it.
  const std::int32_t excess_low = outer_low_ - 1 - bracket.below_low;
  const std::int32_t excess_high = bracket.below_high - outer_high_;
  const float target = excess_low > excess_high ? static_cast<float>(outer_low_) - 1.0F - kMargin
                                                : static_cast<float>(outer_high_) + kMargin;
  const float from_low = target - static_cast<float>(bracket.below_low);
  const float from_high = target - static_cast<float>(bracket.below_high);
  // Inner medians per slope around the middle, for normally distributed values.
  const float density = 2.5F * static_cast<float>(rows_) / bracket.start;
  if (!bracket.has_high) {
    bracket.step *= 2.0F;
    bracket.probe = bracket.low + bracket.step * from_low / density;
  } else if (!bracket.has_low) {
    bracket.step *= 2.0F;
    bracket.probe = std::max(bracket.high + bracket.step * from_high / density,
                             0.5F * (bracket.low + bracket.high));
  } else {
    const float share = from_low / static_cast<float>(std::max(1, bracket.inside()));
    bracket.probe = bracket.low + std::clamp(share, 0.05F, 0.95F) * (bracket.high - bracket.low);
  }
}

double SlopeFinder::finish(const float* sorted, std::int64_t lane) {
  const Bracket& bracket = brackets_[static_cast<std::size_t>(lane)];
  if (bracket.flat) {
    return 0.0;
  }
  for (std::int64_t i = 0; i < rows_; ++i) {
    column_[static_cast<std::size_t>(i)] = static_cast<double>(sorted[i * kLanes + lane]);
  }
  std::int32_t below = 0;
  medians_.clear();
  for (std::int64_t i = 0; i < rows_; ++i) {
    const auto place = static_cast<std::size_t>(i * kLanes + lane);
    if (counts_low_[place] >= inner_high_) {
      ++below;
    } else if (counts_high_[place] >= inner_low_) {
      medians_.push_back(inner_median(i, bracket));
    }
  }
  return middle_of(medians_, outer_low_ - 1 - below, outer_high_ - 1 - below);
}

double SlopeFinder::inner_median(std::int64_t i, const Bracket& bracket) {
  const double value = column_[static_cast<std::size_t>(i)];
  const double* __restrict reciprocals = reciprocals_.data() + rows_ - 1 - i;
  for (std::size_t j = 0; j < column_.size(); ++j) {
    slopes_[j] = (column_[j] - value) * reciprocals[j];
  }
  // Slopes are not negative, so that its own place sorts below all others.
  slopes_[static_cast<std::size_t>(i)] = -1.0;

  // The middle slopes mostly lie in the bracket or next to it: order only what is inside. It is
  // taken a little wider, for its ends were compared in float32.
  const double low = 0.9999 * static_cast<double>(bracket.low);
  const double high = bracket.has_high ? 1.0001 * static_cast<double>(bracket.high) : kInfinity;
  near_.resize(column_.size() + 2);
  double largest_below = -1.0;
  double smallest_above = kInfinity;
  std::size_t inside = 0;
  std::int32_t below = 0;
  for (const double slope : slopes_) {
    near_[inside] = slope;
    inside += static_cast<std::size_t>((slope > low ? 1 : 0) & (slope <= high ? 1 : 0));
    below += slope <= low ? 1 : 0;
    largest_below = std::max(largest_below, slope <= low ? slope : -1.0);
    smallest_above = std::min(smallest_above, slope > high ? slope : kInfinity);
  }
  near_[inside++] = largest_below;
  near_[inside++] = smallest_above;
  near_.resize(inside);
  const std::int32_t first = inner_low_ - below + 1;
  const std::int32_t second = inner_high_ - below + 1;
  if (first >= 0 && second < static_cast<std::int32_t>(inside)) {
    return middle_of(near_, first, second);
  }
  return middle_of(slopes_, inner_low_, inner_high_);
}

}  // namespace winnow
