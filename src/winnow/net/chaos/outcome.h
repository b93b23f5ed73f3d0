// How a row of the fault table ends, other than by passing.
#pragma once

#include <stdexcept>
#include <string>

namespace winnow::chaos {

// What was seen is not what was expected. The text says what was seen.
class Failed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The row, or a part of it, needs something that this machine does not offer.
class Skipped : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void require(bool holds, const std::string& seen) {
  if (!holds) {
    throw Failed(seen);
  }
}

}  // namespace winnow::chaos
