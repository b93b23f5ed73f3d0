#include "winnow/stats/confident.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "winnow/base/error.h"

namespace winnow {
namespace {

constexpr double kStepsOfOne = 4294967296.0;  // 2^32
constexpr double kWilsonZ = 1.959963984540054;

void require_class(std::int64_t number, std::int64_t classes, const char* what) {
  if (number < 0 || number >= classes) {
    throw Error(ErrorKind::internal,
                fmt::format("{}: class {} is outside 0..{}", what, number, classes - 1));
  }
}

void require_same(std::size_t one, std::size_t other, const char* what) {
  if (one != other) {
    throw Error(ErrorKind::internal, fmt::format("{}: {} and {} classes", what, one, other));
  }
}

}  // namespace

ThresholdSums::ThresholdSums(std::int64_t classes)
    : samples_(static_cast<std::size_t>(classes)), steps_(static_cast<std::size_t>(classes)) {}

ThresholdSums::ThresholdSums(std::vector<std::int64_t> samples, std::span<const double> sums)
    : samples_(std::move(samples)) {
  require_same(samples_.size(), sums.size(), "threshold sums");
  for (const double sum : sums) {
    steps_.push_back(static_cast<std::int64_t>(std::llround(sum * kStepsOfOne)));
  }
}

void ThresholdSums::add(std::span<const float> p, std::int64_t given) {
  require_same(p.size(), samples_.size(), "threshold sums");
  require_class(given, std::ssize(samples_), "threshold sums");
  add(static_cast<double>(p[static_cast<std::size_t>(given)]), given);
}

void ThresholdSums::add(double value, std::int64_t label) {
  require_class(label, std::ssize(samples_), "threshold sums");
  const auto at = static_cast<std::size_t>(label);
  ++samples_[at];
  steps_[at] += static_cast<std::int64_t>(std::clamp(value, 0.0, 1.0) * kStepsOfOne);
}

void ThresholdSums::forget(std::int64_t label) {
  require_class(label, std::ssize(samples_), "threshold sums");
  samples_[static_cast<std::size_t>(label)] = 0;
  steps_[static_cast<std::size_t>(label)] = 0;
}

std::vector<double> ThresholdSums::sums() const {
  std::vector<double> sums;
  for (const std::int64_t steps : steps_) {
    sums.push_back(static_cast<double>(steps) / kStepsOfOne);
  }
  return sums;
}

ThresholdSums& ThresholdSums::operator+=(const ThresholdSums& other) {
  require_same(samples_.size(), other.samples_.size(), "threshold sums");
  for (std::size_t c = 0; c < samples_.size(); ++c) {
    samples_[c] += other.samples_[c];
    steps_[c] += other.steps_[c];
  }
  return *this;
}

std::vector<double> ThresholdSums::thresholds() const {
  std::vector<double> thresholds(samples_.size(), std::numeric_limits<double>::infinity());
  for (std::size_t c = 0; c < samples_.size(); ++c) {
    if (samples_[c] > 0) {
      thresholds[c] =
          static_cast<double>(steps_[c]) / kStepsOfOne / static_cast<double>(samples_[c]);
    }
  }
  return thresholds;
}

// spec: audit 2
std::int64_t confident_class(std::span<const float> p, std::span<const double> thresholds) {
  require_same(p.size(), thresholds.size(), "confident class");
  std::int64_t best = -1;
  for (std::size_t c = 0; c < p.size(); ++c) {
    const bool passes = static_cast<double>(p[c]) >= thresholds[c];
    if (passes && (best < 0 || p[c] > p[static_cast<std::size_t>(best)])) {
      best = static_cast<std::int64_t>(c);
    }
  }
  return best;
}

JointCounts::JointCounts(std::int64_t classes)
    : classes_(classes), counts_(static_cast<std::size_t>(classes * classes)) {}

JointCounts::JointCounts(std::int64_t classes, std::vector<std::int64_t> counts)
    : classes_(classes), counts_(std::move(counts)) {
  require_same(counts_.size(), static_cast<std::size_t>(classes * classes), "joint counts");
}

void JointCounts::add(std::int64_t given, std::int64_t counted, std::int64_t times) {
  require_class(given, classes_, "joint counts");
  if (counted >= 0) {
    require_class(counted, classes_, "joint counts");
    counts_[static_cast<std::size_t>(given * classes_ + counted)] += times;
  }
}

JointCounts& JointCounts::operator+=(const JointCounts& other) {
  require_same(counts_.size(), other.counts_.size(), "joint counts");
  std::ranges::transform(counts_, other.counts_, counts_.begin(), std::plus<>());
  return *this;
}

std::int64_t JointCounts::at(std::int64_t given, std::int64_t counted) const {
  return counts_[static_cast<std::size_t>(given * classes_ + counted)];
}

std::int64_t JointCounts::row(std::int64_t given) const {
  const auto first = counts_.begin() + given * classes_;
  return std::accumulate(first, first + classes_, std::int64_t{0});
}

std::int64_t JointCounts::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
}

// spec: audit 2
std::vector<double> calibrated_joint(const JointCounts& counts,
                                     std::span<const std::int64_t> samples) {
  const std::int64_t classes = counts.classes();
  require_same(static_cast<std::size_t>(classes), samples.size(), "calibrated joint");
  std::vector<double> joint(static_cast<std::size_t>(classes * classes), 0.0);
  const auto all =
      static_cast<double>(std::accumulate(samples.begin(), samples.end(), std::int64_t{0}));
  if (all == 0.0) {
    return joint;
  }
  for (std::int64_t i = 0; i < classes; ++i) {
    const auto held = static_cast<double>(samples[static_cast<std::size_t>(i)]) / all;
    const auto row = static_cast<double>(counts.row(i));
    for (std::int64_t j = 0; j < classes; ++j) {
      const double share =
          row > 0.0 ? static_cast<double>(counts.at(i, j)) / row : (i == j ? 1.0 : 0.0);
      joint[static_cast<std::size_t>(i * classes + j)] = held * share;
    }
  }
  return joint;
}

double noise_rate(std::span<const double> joint, std::int64_t classes) {
  require_same(joint.size(), static_cast<std::size_t>(classes * classes), "noise rate");
  double beside = 0.0;
  for (std::int64_t i = 0; i < classes; ++i) {
    for (std::int64_t j = 0; j < classes; ++j) {
      beside += i == j ? 0.0 : joint[static_cast<std::size_t>(i * classes + j)];
    }
  }
  return beside;
}

double label_score(std::span<const float> p, std::int64_t given) {
  require_class(given, std::ssize(p), "label score");
  double best = 0.0;
  for (std::size_t c = 0; c < p.size(); ++c) {
    if (static_cast<std::int64_t>(c) != given) {
      best = std::max(best, static_cast<double>(p[c]));
    }
  }
  const double margin = static_cast<double>(p[static_cast<std::size_t>(given)]) - best;
  return std::clamp((margin + 1.0) / 2.0, 0.0, 1.0);
}

Interval wilson(double share, double count) {
  if (count <= 0.0) {
    return {};
  }
  const double z2 = kWilsonZ * kWilsonZ;
  const double middle = (share + z2 / (2.0 * count)) / (1.0 + z2 / count);
  const double half = kWilsonZ / (1.0 + z2 / count) *
                      std::sqrt(share * (1.0 - share) / count + z2 / (4.0 * count * count));
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

}  // namespace winnow
