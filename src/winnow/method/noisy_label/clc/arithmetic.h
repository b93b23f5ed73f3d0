// The arithmetic of CLC, free of messages and of clients (spec: baselines 20).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/base/params.h"

namespace winnow::clc {

// Whose labels are corrected at the end.
enum class Relabel { all, held_out };

// The method's parameters. Client and server sides share them.
struct Options {
  std::int64_t start_rounds = 1;
  std::int64_t holdout_rounds = 150;
  std::int64_t correction_rounds = 50;
  double tau = 0.1;
  Relabel relabel = Relabel::all;

  std::int64_t rounds() const { return start_rounds + holdout_rounds + correction_rounds; }
};

void declare(Options& options, Params& params);

enum class Stage { start, hold_out, correction };

Stage stage_of(const Options& options, std::int64_t round);
// True for the round that begins with the correction of the labels.
bool corrects(const Options& options, std::int64_t round);

// What a client tells of its classes: the mean probability of a class over the samples that carry
// its label, and how many these are. A class it does not have is 0 and 0.
struct ClassConfidence {
  std::vector<double> mean;
  std::vector<double> count;
};

// `probabilities` are rows of `classes` values, one row per label.
ClassConfidence class_confidence(std::span<const double> probabilities,
                                 std::span<const std::int64_t> labels, std::size_t classes);

// conf[c] = sum count_k[c] mean_k[c] / sum count_k[c] over clients. A class that nobody has gets 1,
// which no probability exceeds.
class Consensus {
 public:
  explicit Consensus(std::size_t classes) : sum_(classes, 0.0), count_(classes, 0.0) {}

  // Both lists have as many values as there are classes.
  void add(const ClassConfidence& client);
  std::vector<double> confidence() const;

 private:
  std::vector<double> sum_;
  std::vector<double> count_;
};

// What is thought of one sample.
struct Verdict {
  std::int64_t label = 0;  // the most probable class among the confident ones, or among all
  bool held_out = false;
};

// A = {c : p_c > conf[c]}. The label is the most probable class of A, or of all where A is empty;
// of equally probable classes the lower. The sample is held out when A is not empty, that label is
// not the given one and max p - p_given > tau.
Verdict judge(std::span<const double> probabilities, std::int64_t given,
              std::span<const double> confidence, double tau);

// The same for rows of probabilities, one per label.
std::vector<Verdict> judge_all(std::span<const double> probabilities,
                               std::span<const std::int64_t> labels,
                               std::span<const double> confidence, double tau);

// Gives every sample, or every one held out, the label of its verdict; returns how many changed.
std::int64_t relabel(std::span<std::int64_t> labels, std::span<const Verdict> verdicts,
                     bool held_out_only);

}  // namespace winnow::clc
