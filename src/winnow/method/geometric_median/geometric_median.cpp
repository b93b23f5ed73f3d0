#include "winnow/method/geometric_median/geometric_median.h"

#include <utility>

namespace winnow {

void GeometricMedianMethod::declare(Params& params) {
  params.add("passes", options_.reweightings, "re-weightings after the first mean")
      .at_least(0)
      .source("spec: baselines 13: 5 passes over the models, counting the first mean");
  params.add("nu", options_.smallest_distance, "distances below this count as this")
      .above(0)
      .source("spec: baselines 13");
  params
      .add("until_converged", options_.until_converged,
           "re-weight until the model changes by less than 1e-5 of its norm, 100 times at most")
      .source("spec: baselines 13");
}

void GeometricMedianMethod::note(Json& notes) const {
  notes["passes"] = passes_;
}

State GeometricMedianMethod::finish() {
  const HeldModels held = held_.take();
  GeometricMedian median = geometric_median(held.models(), held.weights(), options_);
  passes_ = median.passes;
  return std::move(median.model).to(held.device());
}

MethodInfo geometric_median_info() {
  return {"geometric_median", "robust aggregation",
          "the point of the smallest mean distance from the clients' models (RFA)",
          [] { return std::make_unique<GeometricMedianMethod>(); }};
}

}  // namespace winnow
