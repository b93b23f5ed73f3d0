// The server's arithmetic of Fed-NCL as pure functions, all in double precision
// (spec: input-noise 2.1 to 2.5).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "winnow/model/state.h"

namespace winnow::fedncl {

// How divergence and loss become one number; large is unreliable (spec: input-noise 2.2).
enum class ReliabilityRule {
  product_mean,  // D * h
  code_literal,  // D * h / n
  only_ce,       // h / n
  only_div,      // D / n
};

// What a model weighs in the next one (spec: input-noise 2.4).
enum class WeightRule {
  layerwise,        // every entry by its own inverse divergence
  whole_model,      // all entries by 1 / Q
  classifier_only,  // layerwise in the classifier, equal elsewhere
  equal,            // all entries alike: flags weigh nothing
  samples,          // all entries by the client's samples: flags weigh nothing
};

// ||global - model||_2 + 1 of every entry in the order of the layout's slots. Parameters and
// buffers are entries, counters only `with_counters`; they come last, so entry i is slot i.
// Computed where the states live, with one transfer. Throws Error(kind peer) for another layout.
std::vector<double> divergences(const State& global, const State& model, bool with_counters);

// Q of one client from its divergences, its mean loss and its number of samples (> 0).
double reliability(ReliabilityRule rule, std::span<const double> divergences, double loss,
                   double samples);

// (Q - mean) / std with the n-1 standard deviation; all 0 for fewer than 3 scores or equal ones.
std::vector<double> z_scores(std::span<const double> scores);

// z > beta, or |z| > beta when two_sided; always strict (spec: input-noise 2.3).
std::vector<bool> flag(std::span<const double> scores, double beta, bool two_sided);

// What multiplies the divergence of a flagged client: clip(round/early, early, late) up to the
// round `penalty_rounds`, then late.
double penalty(std::int64_t round, std::int64_t penalty_rounds, double early, double late);

// (1/v_i) / sum_j (1/v_j) of values >= 0. Values of 0 share the whole weight, as in the limit.
std::vector<double> inverse_weights(std::span<const double> values);

// What a round knows of its participants, side by side.
struct Participants {
  std::vector<std::vector<double>> divergences;  // by client, then entry
  std::vector<double> scores;                    // Q
  std::vector<double> samples;                   // n
  std::vector<bool> flagged;
};

// Weights by slot, then client; each slot's sum to 1. A slot that is no entry weighs all equally.
std::vector<std::vector<double>> slot_weights(WeightRule rule, const Layout& layout,
                                              const Participants& participants, double penalty);

// The slots of the fully connected layers a network ends with: by slot, true for the classifier.
std::vector<bool> classifier_slots(const Layout& layout);

// sum_c weights[slot][c] * models[c] in every slot, counters rounded; a new state on the device of
// the first model.
State combine(std::span<const State> models, const std::vector<std::vector<double>>& weights);

// For each row of class probabilities its largest class when that is at least `confidence`, else
// the given label (spec: input-noise 2.5). Nothing is changed in place.
at::Tensor confident_labels(const at::Tensor& probabilities, const at::Tensor& given,
                            double confidence);

}  // namespace winnow::fedncl
