// Weighted means of models in double precision, whole or one stretch of them: where different ranks
// form different stretches of a mean, in the same order, the bits are those of one process.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/federation/fixed_sum.h"
#include "winnow/model/state.h"

namespace winnow {

// sum[i] += weight * values[i].
void add_weighted(std::span<const float> values, double weight, std::span<double> sum);
// into[i] = sum[i] / total.
void divide_sum(std::span<const double> sum, double total, std::span<float> into);

// The values from `begin` to before `end` of a model.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
};

// One stretch of the mean of models, on the CPU. Running statistics and counters have a weight of
// their own. The result depends on the order of add() only through double rounding, and on nothing
// outside the stretch.
class PartMean {
 public:
  PartMean(LayoutPtr layout, Stretch stretch);
  // The whole model.
  explicit PartMean(const LayoutPtr& layout) : PartMean(layout, {0, layout->total()}) {}

  // As many values as the stretch has.
  void add(std::span<const float> values, const PartWeights& weights);
  // Writes the mean; values without weight are zero. Counters are not rounded yet.
  void write(std::span<float> into) const;

 private:
  // How many values of the stretch are parameters; the others follow.
  std::size_t parameters() const;

  LayoutPtr layout_;
  Stretch stretch_;
  std::vector<double> sum_;
  double parameters_weight_ = 0.0;
  double buffers_weight_ = 0.0;
};

}  // namespace winnow
