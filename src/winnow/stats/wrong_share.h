// The share of wrong labels, by a model of how labels go wrong (spec: audit 2).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

// What is known of some samples: probabilities from a model that never saw them, a row for each,
// the label each was given, and the number, from 0 on, of the model that judged it.
struct JudgedLabels {
  std::int64_t classes = 0;
  std::span<const float> p;
  std::span<const std::int64_t> given;
  std::span<const std::int64_t> model;
};

struct WrongShare {
  double rate = 0.0;
  std::vector<double> flips = {};      // [true][given], rows that sum to 1
  std::vector<double> sharpness = {};  // by model
  std::int64_t steps = 0;
};

// Fits by expectation maximisation P(given i | x) = sum over j of q_j(x) T_ji. q are the
// probabilities of the true class: those of the model to a power of its own, times a factor for
// each of its classes, as it is not as sure as it should be and prefers some classes. T, which all
// models share, says how often a label of class j is given as i. The rate is the mean probability
// that the given label is not the true one. Of no samples: 0.
WrongShare fit_wrong_share(const JudgedLabels& labels);

}  // namespace winnow
