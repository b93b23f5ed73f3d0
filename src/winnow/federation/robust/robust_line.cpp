#include "winnow/federation/robust/robust_line.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace winnow {
namespace {

constexpr int kMostProbes = 4;
constexpr std::int64_t kFewEnough = 4;  // inner medians per column that are not worth a probe
constexpr float kMargin = 2.0F;         // how far outside the middle a probe aims, in places
constexpr int kMostSteps = 8;           // from a guess to the middle slopes
constexpr std::ptrdiff_t kParts = 8;    // worked on side by side

// The mean of the numbers at two neighbouring places, or at one, of the sorted order.
template <typename Number>
Number middle_of(std::vector<Number>& numbers, std::int32_t low, std::int32_t high) {
  const auto place = numbers.begin() + high;
  std::nth_element(numbers.begin(), place, numbers.end());
  return low == high ? *place : (*std::max_element(numbers.begin(), place) + *place) / 2;
}

// Where a slope stands among others.
template <typename Number>
struct Neighbours {
  std::int32_t count = 0;  // slopes at most as large
  Number below = 0;        // the largest of them, 0 when there is none
  Number above = 0;        // the smallest of the others, infinity when there is none
};

// The number of slopes must be a multiple of kParts.
template <typename Number>
Neighbours<Number> neighbours(const std::vector<Number>& slopes, Number slope) {
  constexpr Number kLargest = std::numeric_limits<Number>::infinity();
  Number counts[kParts] = {};
  Number below[kParts] = {};
  Number above[kParts];
  std::ranges::fill(above, kLargest);
  for (auto from = slopes.begin(); from != slopes.end(); from += kParts) {
    for (std::ptrdiff_t p = 0; p < kParts; ++p) {
      const Number low = from[p] <= slope ? from[p] : Number{0};
      const Number high = from[p] <= slope ? kLargest : from[p];
      counts[p] += from[p] <= slope ? Number{1} : Number{0};
      // Not std::min and max, which GCC does not vectorise here.
      below[p] = low > below[p] ? low : below[p];
      above[p] = high < above[p] ? high : above[p];
    }
  }
  return {static_cast<std::int32_t>(std::accumulate(counts, counts + kParts, Number{0})),
          *std::max_element(below, below + kParts), *std::min_element(above, above + kParts)};
}

// The median of rows - 1 slopes, of which `slopes` holds one more that is below all others and
// infinities at its end. `near` is a guess of it.
template <typename Number>
Number median_near(Number near, std::int32_t low, std::int32_t high, std::vector<Number>& slopes) {
  // Walk to where just the lower half is at most as large, its own place counted.
  const std::int32_t half = low + 1;
  Neighbours<Number> at = neighbours(slopes, near);
  for (int step = 0; at.count != half; ++step) {
    if (step == kMostSteps) {
      return middle_of(slopes, low, high);
    }
    const bool up = at.count < half;
    const Number slope = up ? at.above : at.below;
    const Neighbours<Number> next =
        neighbours(slopes, up ? slope : std::nextafter(slope, Number{-1}));
    if (up ? next.count > half : next.count < half) {
      return slope;  // it is there more than once
    }
    at = next;
  }
  return low == high ? at.below : (at.below + at.above) / 2;
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

template <typename Number>
SlopeFinder::Scratch<Number>::Scratch(std::int64_t rows)
    : slopes(static_cast<std::size_t>((rows + kParts - 1) / kParts * kParts)) {
  for (std::int64_t d = 1 - rows; d < rows; ++d) {
    reciprocals.push_back(d == 0 ? Number{0} : Number{1} / static_cast<Number>(d));
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
      rough_(rows),
      fine_(rows) {}

void SlopeFinder::operator()(const float* sorted, double* slopes) {
  start(sorted);
  for (int probe = 0; probe < kMostProbes && undecided() > kFewEnough * kLanes; ++probe) {
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
  float densest[kLanes];
  std::int32_t equal[kLanes] = {};  // how often `most` steps lead to an equal value
  std::ranges::fill(densest, std::numeric_limits<float>::infinity());
  for (std::int64_t i = 0; i + half < rows_; ++i) {
    const float* __restrict from = sorted + i * kLanes;
    const float* __restrict to = from + half * kLanes;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const float width = to[lane] - from[lane];
      densest[lane] = width < densest[lane] ? width : densest[lane];
    }
  }
  for (std::int64_t i = 0; i + most < rows_; ++i) {
    const float* __restrict from = sorted + i * kLanes;
    const float* __restrict to = from + most * kLanes;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      equal[lane] += to[lane] == from[lane] ? 1 : 0;
    }
  }
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    Bracket& bracket = brackets_[static_cast<std::size_t>(lane)];
    bracket = {};
    bracket.flat = equal[lane] > 0;
    bracket.probing =
        !bracket.flat && std::isfinite(sorted[(rows_ - 1) * kLanes + lane] - sorted[lane]);
    bracket.start = bracket.low = bracket.probing ? densest[lane] / static_cast<float>(half) : 0.0F;
    bracket.below_high = bracket.flat ? 0 : static_cast<std::int32_t>(rows_);
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
  std::int32_t is_low[kLanes] = {};  // -1 where the probe is a new end of the bracket
  std::int32_t is_high[kLanes] = {};
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    Bracket& bracket = brackets_[static_cast<std::size_t>(lane)];
    if (!bracket.probing) {
      continue;
    }
    if (rows_ - above[lane] < outer_low_) {
      bracket.low = bracket.probe;
      bracket.has_low = true;
      bracket.below_low = at_most[lane];
      is_low[lane] = -1;
    } else if (at_most[lane] >= outer_high_) {
      bracket.high = bracket.probe;
      bracket.below_high = static_cast<std::int32_t>(rows_) - above[lane];
      bracket.has_high = true;
      is_high[lane] = -1;
    }
    choose_probe(bracket);
  }
  for (std::int64_t i = 0; i < rows_; ++i) {
    const std::int32_t* __restrict counts = counts_.data() + i * kLanes;
    std::int32_t* __restrict low = counts_low_.data() + i * kLanes;
    std::int32_t* __restrict high = counts_high_.data() + i * kLanes;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      // Not a choice, which GCC does not vectorise here.
      low[lane] += (counts[lane] - low[lane]) & is_low[lane];
      high[lane] += (counts[lane] - high[lane]) & is_high[lane];
    }
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
    column_[static_cast<std::size_t>(i)] = sorted[i * kLanes + lane];
  }
  std::int32_t below = 0;
  medians_.clear();
  for (std::int64_t i = 0; i < rows_; ++i) {
    const auto place = static_cast<std::size_t>(i * kLanes + lane);
    const std::int32_t at_low = counts_low_[place];
    const std::int32_t at_high = counts_high_[place];
    if (at_low >= inner_high_) {
      ++below;
    } else if (at_high >= inner_low_) {
      const float share = static_cast<float>(inner_low_ - at_low) /
                          static_cast<float>(std::max(1, at_high - at_low));
      const float near = bracket.low + share * (bracket.high - bracket.low);
      medians_.emplace_back(bracket.probing ? static_cast<double>(inner_median(i, near, rough_))
                                            : inner_median(i, 0.0, fine_),
                            i);
    }
  }
  const auto exact = [&](const auto& median) {
    return bracket.probing ? inner_median(median->second, median->first, fine_) : median->first;
  };
  const auto place = medians_.begin() + (outer_high_ - 1 - below);
  std::nth_element(medians_.begin(), place, medians_.end());
  const double high = exact(place);
  return outer_low_ == outer_high_
             ? high
             : 0.5 * (exact(std::max_element(medians_.begin(), place)) + high);
}

template <typename Number>
Number SlopeFinder::inner_median(std::int64_t i, Number near, Scratch<Number>& scratch) {
  const Number value = column_[static_cast<std::size_t>(i)];
  const Number* __restrict reciprocals = scratch.reciprocals.data() + rows_ - 1 - i;
  Number* __restrict slopes = scratch.slopes.data();
  for (std::int64_t j = 0; j < rows_; ++j) {
    slopes[j] =
        (static_cast<Number>(column_[static_cast<std::size_t>(j)]) - value) * reciprocals[j];
  }
  // Slopes are not negative, so that its own place sorts below all others.
  slopes[i] = -1;
  std::fill(slopes + rows_, slopes + std::ssize(scratch.slopes),
            std::numeric_limits<Number>::infinity());
  return median_near(near, inner_low_, inner_high_, scratch.slopes);
}

}  // namespace winnow
