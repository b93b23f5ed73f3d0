#include "winnow/method/median/median.h"

namespace winnow {

State Median::finish() {
  const HeldModels held = held_.take();
  State next = coordinate_median(held.models());
  average_counters(held.models(), held.samples(), next);  // spec: baselines 0.1
  return next.to(held.device());
}

MethodInfo median_info() {
  return {"median", "robust aggregation", "median of every coordinate over the clients",
          [] { return std::make_unique<Median>(); }};
}

}  // namespace winnow
