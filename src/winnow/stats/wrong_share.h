// The share of wrong labels, by a model of how labels go wrong (spec: audit 2).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

// What is known of some samples: probabilities from a model that never saw them, a row for each,
// the label each was given, and the number, from 0 on, of the model that judged it. Where `judged`
// is false for a sample, it has no part in anything; without it, all samples were judged.
struct JudgedLabels {
  std::int64_t classes = 0;
  std::span<const float> p;
  std::span<const std::int64_t> given;
  std::span<const std::int64_t> model;
  const std::vector<bool>* judged = nullptr;
};

struct WrongShare {
  double rate = 0.0;
  std::vector<double> flips = {};  // [true][given], rows that sum to 1
  std::vector<double> bias = {};   // logarithms of the factors, by model and class
  double sharpness = 0.0;
  std::int64_t steps = 0;

  // The probabilities of the true class of a sample, a number for each class: of one of those that
  // were fitted, and in sum what `rate` is made of.
  std::vector<double> true_class(std::span<const float> p, std::int64_t given,
                                 std::int64_t model) const;
};

// Fits by expectation maximisation P(given i | x) = sum over j of q_j(x) T_ji. q are the
// probabilities of the true class: those of the model to a power, the sharpness, as models are not
// as sure as they should be, times a factor of the model's own for each class, as each prefers
// some. T says how often a label of class j is given as i. All models share the sharpness and T:
// with a sharpness of its own, a model whose clients have wrong labels would pass for an unsure
// one. The rate is the mean probability that the given label is not the true one. Of no samples: 0.
// Ends after the step in which `stop` is set; what it returns then is of no use.
WrongShare fit_wrong_share(const JudgedLabels& labels, const std::atomic<bool>* stop = nullptr);

}  // namespace winnow
