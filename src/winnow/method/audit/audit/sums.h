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

// The thresholds of the model of one fold: means over its samples, and where these are few of a
// class, nearly those over all samples. Models are not equally sure of themselves.
std::vector<double> fold_thresholds(const ThresholdSums& fold, const ThresholdSums& all);

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

// What a client has said, and whose model judged it; -1: that of nobody else, or several.
struct Member {
  const FirstSums* first = nullptr;
  const SecondSums* second = nullptr;
  std::int64_t fold = -1;
};

// What all clients together say, and of each what only a comparison with the others shows.
struct Pooled {
  // In any order, but the same one for the same bits.
  Pooled(std::int64_t classes, const std::vector<Member>& members);

  JointCounts counts;
  StatHistogram distance = {};
  std::vector<double> bars;  // label issues lie below, by class
  // By member: how the model that judged it confuses right labels, by what the other clients show,
  // and the kind of its label noise against that.
  std::vector<Confusion> confusions = {};
  std::vector<KindFinding> kinds = {};
  // By member: how far its images lie from the middle of all, beyond what is usual, and how far
  // they spread, as logarithms against the third of the clients that has least of each.
  std::vector<double> image_distance = {};
  std::vector<double> image_spread = {};

 private:
  void find_kinds(std::int64_t classes, const std::vector<Member>& members);
  void compare_images(const std::vector<Member>& members);
};

// How a client's update lies to the mean of the others', and its length in medians of theirs.
struct UpdateShape {
  double cosine = 0.0;
  double norm = 1.0;
};

// All that is said of a client but how many issues it has, and its duplicates at others.
// `place`: of the client among the members of `pooled`, if it has samples.
ClientFinding describe(const FirstSums& first, const SecondSums& second, const Population& all,
                       const Pooled& pooled, std::size_t place, const UpdateShape& update);

}  // namespace winnow::audit
