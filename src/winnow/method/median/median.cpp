#include "winnow/method/median/median.h"

namespace winnow {

State Median::finish() {
  const HeldModels held = held_.take();
  return coordinate_median(held.models()).to(held.device());
}

MethodInfo median_info() {
  return {"median", "robust aggregation", "median of every coordinate over the clients",
          [] { return std::make_unique<Median>(); }};
}

}  // namespace winnow
