// An audit in sums (spec: audit 2 to 5): what a client forms of its samples, what is made of the
// sums of all clients, and what is told back. Nothing here sees a sample but own_samples.h's side.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "winnow/method/audit/audit/findings.h"

namespace winnow::audit {

inline constexpr std::size_t kItemScores = 4;  // dark, light, blurry, low information

// What a client says first of its samples, judged by a model that never saw them.
struct FirstSums {
  explicit FirstSums(std::int64_t classes)
      : held(static_cast<std::size_t>(classes)), labels(classes) {}

  std::int64_t samples = 0;
  std::vector<std::int64_t> held;  // by given label
  ThresholdSums labels;            // of the judged ones
  std::array<StatHistogram, kImageStats> stats{};
  std::array<StatHistogram, kItemScores> scores{};
  StatHistogram gradient = {};  // norms, on_log_scale()
  StatHistogram distance = {};  // to the nearest neighbours, on_log_scale()
};

// All clients together.
struct Population {
  explicit Population(std::int64_t classes)
      : held(static_cast<std::size_t>(classes)), labels(classes) {}

  Population& operator+=(const FirstSums& client);

  std::vector<std::int64_t> held;
  ThresholdSums labels;
  std::array<StatHistogram, kImageStats> stats{};
  std::array<StatHistogram, kItemScores> scores{};
  StatHistogram gradient = {};
};

// The distance that those of a fold are measured in: its median.
double middle_distance(const StatHistogram& distances);

// What clients are told of the population, to look at their samples by.
struct Told {
  std::vector<double> thresholds;  // infinity: no sample was given the class
  std::array<double, kImageStats> middle{};
  std::array<double, kImageStats> spread{};
  std::array<double, kItemScores> rare{};  // scores below are those of few
  double distance = 1.0;                   // the middle_distance() of its fold
};
Told tell(const Population& all);

// What a client says then.
struct SecondSums {
  explicit SecondSums(std::int64_t classes) : counts(classes), confident(classes) {}

  JointCounts counts;
  ThresholdSums confident;      // label scores of the samples that count for their own class
  StatHistogram distance = {};  // in middles of the fold, on_log_scale()
  double image_distance = 0.0;  // mean square in spreads of the population, summed over samples
  double mixture = 0.0;         // gain of two components of the label scores over one
  std::int64_t duplicates = 0;
};

// The same of all clients.
struct Pooled {
  // In any order, but the same one for the same bits.
  Pooled(std::int64_t classes, const std::vector<const SecondSums*>& clients);

  JointCounts counts;
  StatHistogram distance = {};
  Confusion confusion = {};
  std::vector<double> bars;  // label issues lie below, by class
};

// How a client's update lies to the mean of the others', and its length in medians of theirs.
struct UpdateShape {
  double cosine = 0.0;
  double norm = 1.0;
};

// All that is said of a client but how many issues it has, and its duplicates at others.
ClientFinding describe(const FirstSums& first, const SecondSums& second, const Population& all,
                       const Pooled& pooled, const UpdateShape& update);

}  // namespace winnow::audit
