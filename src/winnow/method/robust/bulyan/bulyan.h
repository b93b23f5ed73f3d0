// Bulyan (spec: baselines 12): FedAvg's training; Krum selects models one after the other, and
// every coordinate is the mean of those of their values that are closest to the median.
#pragma once

#include <cstdint>

#include "winnow/method/holding_method.h"

namespace winnow {

// Holds every upload of a round. Neither samples nor the factors of a wrapper count.
class Bulyan : public HoldingMethod {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override {
    check_models(whole_round(setting, "bulyan"));
  }
  // Fewer than 4 f + 3 are refused.
  void check_models(const ModelCount& count) const override;
  bool can_finish() const override { return held_.size() >= fewest(); }
  ServerNeeds server_needs() const override {
    return ServerNeeds::models(
        "it measures the distances between all models and sorts their values");
  }
  // Throws Error(kind run) when there are fewer than 4 f + 3 models. Notes `selected`, the clients
  // in the order of selection.
  State finish(Round& round) override;
  bool weighs() const override { return false; }

 private:
  std::int64_t fewest() const { return 4 * byzantine_ + 3; }

  std::int64_t byzantine_ = 1;
};

MethodInfo bulyan_info();

}  // namespace winnow
