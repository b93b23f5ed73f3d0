#include "winnow/method/robust/median/median.h"

namespace winnow {

State Median::finish(Round& /*round*/) {
  const HeldModels held = held_.take();
  State next = coordinate_median(held.models());
  average_counters(held.models(), held.samples(), next);  // spec: baselines 0.1
  return next.to(held.device());
}

MethodInfo median_info() {
  return {"median", "robust aggregation", "median of every coordinate",
          [] { return std::make_unique<Median>(); }};
}

}  // namespace winnow
