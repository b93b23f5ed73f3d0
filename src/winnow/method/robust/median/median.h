// Coordinate median (spec: baselines 10): FedAvg's training; every coordinate of the next model is
// the median of the clients' values.
#pragma once

#include "winnow/method/holding_method.h"

namespace winnow {

// Holds every upload of a round. Neither samples nor the factors of a wrapper count.
class Median : public HoldingMethod {
 public:
  ServerNeeds server_needs() const override {
    return ServerNeeds::models("it sorts the values of all models, coordinate by coordinate");
  }
  // Throws Error(kind run) when nothing was added.
  State finish(Round& round) override;
  bool weighs() const override { return false; }
};

MethodInfo median_info();

}  // namespace winnow
