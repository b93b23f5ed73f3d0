// Trimmed mean (spec: baselines 9): FedAvg's training; every coordinate of the next model is the
// mean of the clients' values without the smallest and the largest ones.
#pragma once

#include <cstdint>

#include "winnow/method/holding_method.h"

namespace winnow {

// Holds every upload of a round. Counts of samples play no part; the factors of a wrapper weigh the
// values that are left after trimming, and an upload of factor 0 is left out before it.
class TrimmedMean : public HoldingMethod {
 public:
  explicit TrimmedMean(double trim = 0.2) : trim_(trim) {}

  void declare(Params& params) override;
  void check(const Setting& setting) const override {
    check_models(whole_round(setting, "trimmed_mean"));
  }
  // Refused is a number of which trimming leaves none.
  void check_models(const ModelCount& count) const override;
  void add(Round& round, const Upload& upload) override;
  // Throws Error(kind run) when nothing was added or trimming leaves no value.
  bool can_finish() const override;
  ServerNeeds server_needs() const override {
    return ServerNeeds::models("it sorts the values of all models, coordinate by coordinate");
  }
  State finish(Round& round) override;

 private:
  double trim_;
};

// How many of `count` values are dropped at each end: int(trim * count), safe against rounding.
std::int64_t trimmed_per_end(double trim, std::int64_t count);

MethodInfo trimmed_mean_info();

}  // namespace winnow
