// How the updates of a round lie to each other, by which hostile ones show (spec: winnow 3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/method/system/winnow/arithmetic.h"
#include "winnow/model/state.h"

namespace winnow::winnowing {

// One client's update among those of a round.
struct Bearing {
  double cosine = 0.0;  // with the sum of the others' directions; 0 where either has none
  double length = 0.0;
  double course = 0.0;  // of the client, after this update
  bool struck = false;  // against the others, or out of proportion
};

struct Move {
  State model;
  double samples = 0.0;
  double course = 0.0;  // of the client, before this update
};

// From what clients sent back, in a fixed order, to how their updates of `global` lie. Directions
// are updates of the parameters scaled to length 1. Clients on a course against the others are not
// in the sum; those that turn out to be leave it, and all are compared again until nobody does.
// Where that would be more than half of them, no direction is judged, and no course changes. With
// fewer than three moves nobody is struck.
std::vector<Bearing> bearings(const State& global, std::span<const Move> moves,
                              const Options& options);

// Whether an update is out of proportion: longer than `reach` times the median, and as many times
// more as it has more samples than the median, or a hundredth of it and shorter.
bool out_of_proportion(double length, double samples, double median_length, double median_samples,
                       double reach);

// The mean cosine of a client's updates, later ones counting for more; 0 before the first.
double next_course(double course, double cosine, double share);

}  // namespace winnow::winnowing
