// What local training and scoring cost, whatever the device.
#pragma once

#include <cstdint>

namespace winnow {

// How many images went through a network, and how many of these back again. A pass back through the
// head alone counts as one.
struct Passes {
  std::int64_t forward = 0;
  std::int64_t backward = 0;

  Passes& operator+=(const Passes& other) {
    forward += other.forward;
    backward += other.backward;
    return *this;
  }
  friend Passes operator-(const Passes& after, const Passes& before) {
    return {after.forward - before.forward, after.backward - before.backward};
  }
  friend Passes operator*(std::int64_t times, const Passes& one) {
    return {times * one.forward, times * one.backward};
  }
};

}  // namespace winnow
