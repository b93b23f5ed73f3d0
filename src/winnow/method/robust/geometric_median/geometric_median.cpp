#include "winnow/method/robust/geometric_median/geometric_median.h"

#include <utility>

namespace winnow {

void GeometricMedianMethod::declare(Params& params) {
  params
      .add("passes", options_.reweightings,
           "number of times the models are re-weighted after the first mean")
      .at_least(0)
      .source("spec: baselines 13: 5 passes over the models, counting the first mean");
  params
      .add("nu", options_.smallest_distance,
           "smallest distance from a model that counts in its weight")
      .above(0)
      .source("spec: baselines 13");
  params
      .add("until_converged", options_.until_converged,
           "re-weight until the model changes by less than 1e-5 of its norm, at most 100 times")
      .source("spec: baselines 13");
}

State GeometricMedianMethod::finish(Round& round) {
  const HeldModels held = held_.take();
  GeometricMedian median = geometric_median(held.models(), held.weights(), options_);
  round.notes["passes"] = median.passes;
  return std::move(median.model).to(held.device());
}

MethodInfo geometric_median_info() {
  return {"geometric_median", "robust aggregation",
          "the point with the smallest mean distance from all models",
          [] { return std::make_unique<GeometricMedianMethod>(); }};
}

}  // namespace winnow
