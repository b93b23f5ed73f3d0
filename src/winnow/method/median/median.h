// Coordinate median (spec: baselines 10): FedAvg's training; every coordinate of the next model is
// the median of the clients' values.
#pragma once

#include "winnow/federation/robust.h"
#include "winnow/method/base_method.h"

namespace winnow {

// Holds every upload of a round. Neither samples nor the factors of a wrapper count.
class Median : public BaseMethod {
 public:
  void begin(const State& global) override;
  void add(const Upload& upload) override;
  // Throws Error(kind run) when nothing was added.
  State finish() override;

 private:
  HeldModels held_;
};

MethodInfo median_info();

}  // namespace winnow
