// Geometric median, RFA (spec: baselines 13): FedAvg's training; the next model is the point whose
// weighted mean distance from the clients' models is smallest, or nearly.
#pragma once

#include <cstdint>

#include "winnow/method/holding_method.h"

namespace winnow {

// Holds every upload of a round and weighs them by Upload::weight().
class GeometricMedianMethod : public HoldingMethod {
 public:
  void declare(Params& params) override;
  // Throws Error(kind run) when nothing that weighs anything was added.
  State finish() override;
  // Notes `passes`, over the models, the first mean counted.
  void note(Json& notes) const override;

 private:
  GeometricMedianOptions options_;
  std::int64_t passes_ = 0;
};

MethodInfo geometric_median_info();

}  // namespace winnow
