// Trimmed mean (spec: baselines 9): FedAvg's training; every coordinate of the next model is the
// mean of the clients' values without the smallest and the largest ones.
#pragma once

#include <cstdint>
#include <vector>

#include "winnow/method/base_method.h"

namespace winnow {

// Holds every upload of a round. Counts of samples play no part; the factors of a wrapper weigh the
// values that are left after trimming, and an upload of factor 0 is left out before it.
class TrimmedMean : public BaseMethod {
 public:
  explicit TrimmedMean(double trim = 0.2) : trim_(trim) {}

  void declare(Params& params) override;
  void begin(const State& global) override;
  void add(const Upload& upload) override;
  // Throws Error(kind run) when nothing was added or trimming leaves no value.
  State finish() override;

 private:
  double trim_;
  std::vector<State> models_;
  std::vector<double> factors_;
};

// How many of `count` values are dropped at each end: int(trim * count), safe against rounding.
std::int64_t trimmed_per_end(double trim, std::int64_t count);

// The trimmed, factor-weighted mean of parameters and buffers; counters become their rounded plain
// mean. Equal values are dropped in the order of `models`. `block` coordinates are sorted at a
// time, which bounds the memory and changes no result. Needs at least one model, one positive
// factor per model, and 2 * per_end < models.
State trimmed_mean(const std::vector<State>& models, const std::vector<double>& factors,
                   std::int64_t per_end, std::int64_t block = 65536);

MethodInfo trimmed_mean_info();

}  // namespace winnow
