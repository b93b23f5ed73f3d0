#include "winnow/method/arfl/arfl.h"

#include <utility>

namespace winnow {

void ArflMethod::declare(Params& params) {
  params.add("lambda", options_.lambda, "how far from the line a value may lie")
      .above(0)
      .source("ARFL's paper and code");
  params
      .add("delta", options_.delta,
           "a value whose confidence is below this is replaced by the line's")
      .range(0, 1)
      .source("ARFL's paper and code");
}

void ArflMethod::note(Json& notes) const {
  notes["arfl_clients"] = clients_;
  notes["arfl_weights"] = weights_;
}

State ArflMethod::finish() {
  const HeldModels held = held_.take();
  Arfl result = arfl(held.models(), options_);
  clients_ = held.clients();
  weights_ = std::move(result.weights);
  return result.model.to(held.device());
}

MethodInfo arfl_info() {
  return {"arfl", "robust aggregation",
          "models weighted by how well they fit robust lines through every coordinate",
          [] { return std::make_unique<ArflMethod>(); }};
}

}  // namespace winnow
