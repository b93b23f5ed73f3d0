// Confident learning from sums (spec: audit 2): which labels a model that never saw them doubts.
// Every sum here may leave its owner, and sums over clients are those over their union.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

// By class how many samples were given it, and the sum of the probability that they have for it.
// The sum is kept in steps of 2^-32, so that it does not depend on the order of samples or clients.
class ThresholdSums {
 public:
  explicit ThresholdSums(std::int64_t classes);

  // Sums that somebody else has formed, of as many classes each. Throws Error(kind internal) where
  // they are not of one size.
  ThresholdSums(std::vector<std::int64_t> samples, std::span<const double> sums);

  // `p`: the probabilities of one sample, one for each class; `given`: its label.
  void add(std::span<const float> p, std::int64_t given);
  // Any number between 0 and 1 that a sample of the class has.
  void add(double value, std::int64_t label);
  ThresholdSums& operator+=(const ThresholdSums& other);
  // Takes all samples of a class out.
  void forget(std::int64_t label);

  const std::vector<std::int64_t>& samples() const { return samples_; }
  std::vector<double> sums() const;  // by class
  // The mean probability of the given class, by class. A class that no sample was given has no
  // threshold: infinity, which nothing passes.
  std::vector<double> thresholds() const;

 private:
  std::vector<std::int64_t> samples_;
  std::vector<std::int64_t> steps_;
};

// The class that a sample counts for: of those whose threshold its probability reaches the one with
// the largest probability, the first of equals. -1: it counts nowhere.
std::int64_t confident_class(std::span<const float> p, std::span<const double> thresholds);

// Samples by given label and by the class that they count for.
class JointCounts {
 public:
  explicit JointCounts(std::int64_t classes);
  // Those that somebody else has counted, row by row.
  JointCounts(std::int64_t classes, std::vector<std::int64_t> counts);

  // A sample that counts nowhere (-1) is left out.
  void add(std::int64_t given, std::int64_t counted, std::int64_t times = 1);
  JointCounts& operator+=(const JointCounts& other);

  std::int64_t classes() const { return classes_; }
  const std::vector<std::int64_t>& counts() const { return counts_; }  // row by row
  std::int64_t at(std::int64_t given, std::int64_t counted) const;
  std::int64_t row(std::int64_t given) const;  // the sum of a row
  std::int64_t total() const;

 private:
  std::int64_t classes_;
  std::vector<std::int64_t> counts_;
};

// The estimated joint of given and true label, row by row: each row scaled to the samples that were
// given its label, the whole to 1. A row without counts has no evidence and lies on its diagonal.
std::vector<double> calibrated_joint(const JointCounts& counts,
                                     std::span<const std::int64_t> samples);

// What lies beside the diagonal of such a joint: the share of wrong labels.
double noise_rate(std::span<const double> joint, std::int64_t classes);

// The margin of the given label over the best other one, brought to [0, 1]; low is bad.
double label_score(std::span<const float> p, std::int64_t given);

struct Interval {
  double low = 0.0;
  double high = 1.0;
};
// Wilson's interval of a share seen in `count` draws, at 95 %. Of no draws: [0, 1].
Interval wilson(double share, double count);

}  // namespace winnow
