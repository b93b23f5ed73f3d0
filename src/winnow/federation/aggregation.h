// From the replies of a round to the next global model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "winnow/model/state.h"

namespace winnow {

// sum_i n_i w_i / sum_i n_i over all parameters and buffers (spec: label-noise 0.1), formed in
// double precision as replies come, so it holds one model whatever the number of clients. Counters
// become the rounded mean. The result depends on the order of add() only through double rounding;
// callers add in the fleet's fixed order.
class WeightedMean {
 public:
  // Weights must be finite and not negative.
  void add(const State& state, double weight);
  // The mean itself, where it was formed elsewhere. Nothing may be added then.
  void set(State mean);
  double total_weight() const { return total_; }
  // Throws Error(kind run) when nothing with a positive weight was added. Ready for reuse after.
  State finish();

 private:
  LayoutPtr layout_;
  at::Tensor sum_;   // double
  at::Tensor mean_;  // where it was set
  double total_ = 0.0;
};

// Throws Error(kind peer) unless both models have the same layout.
void require_same_layout(const Layout& a, const Layout& b);

// The Euclidean distance of the parameters of two models of one layout, both on the CPU, in double
// precision and without a copy of either.
double parameter_distance(const State& a, const State& b);

// True when every value is a finite number.
[[nodiscard]] bool all_finite(const State& state);

}  // namespace winnow
