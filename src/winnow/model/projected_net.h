// A projection between a network and its head, where MOON compares models (spec: baselines 8).
#pragma once

#include <cstdint>

#include "winnow/model/net.h"

namespace winnow {

// `net` whose features d go through d -> d, ReLU, d -> width before a linear head; its features()
// are the projected ones. The net's own head, made d wide, is the first of these layers;
// "projection" is the second and "output" the head.
NetInfo projected(const NetInfo& net, std::int64_t width);

}  // namespace winnow
