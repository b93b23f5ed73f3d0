#include "winnow/method/robust/arfl/arfl.h"

namespace winnow {

void ArflMethod::declare(Params& params) {
  params
      .add("lambda", options_.lambda,
           "how far from the robust line a value may lie before its confidence falls")
      .above(0)
      .source("ARFL's paper and code");
  params
      .add("delta", options_.delta,
           "confidence below which a value is replaced by that of the robust line")
      .range(0, 1)
      .source("ARFL's paper and code");
}

State ArflMethod::finish(Round& round) {
  const HeldModels held = held_.take();
  Arfl result = arfl(held.models(), options_);
  round.notes["arfl_clients"] = held.clients();
  round.notes["arfl_weights"] = result.weights;
  return result.model.to(held.device());
}

MethodInfo arfl_info() {
  return {"arfl", "robust aggregation", "models weighted by their fit to robust regression lines",
          [] { return std::make_unique<ArflMethod>(); }};
}

}  // namespace winnow
