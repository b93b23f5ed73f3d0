// Geometric median, RFA (spec: baselines 13): FedAvg's training; the next model is the point whose
// weighted mean distance from the clients' models is smallest, or nearly.
#pragma once

#include "winnow/method/holding_method.h"

namespace winnow {

// Holds every upload of a round and weighs them by Upload::weight().
class GeometricMedianMethod : public HoldingMethod {
 public:
  void declare(Params& params) override;
  ServerNeeds server_needs() const override {
    return ServerNeeds::models("it weights every model by its distance from the others");
  }
  // Throws Error(kind run) when nothing that weighs anything was added. Notes `passes`, over the
  // models, the first mean counted.
  State finish(Round& round) override;

 private:
  GeometricMedianOptions options_;
};

MethodInfo geometric_median_info();

}  // namespace winnow
