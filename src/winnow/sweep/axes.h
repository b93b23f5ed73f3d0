// The axes of a sweep: what its file says of rows, columns and values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "winnow/base/json.h"
#include "winnow/method/method.h"

namespace winnow {

using KeyValues = std::vector<std::pair<std::string, Json>>;

struct SweepAxis {
  enum class Kind : std::uint8_t { seed, row, column };
  // What a choice sets, and how it is called.
  struct Choice {
    std::string label;
    KeyValues sets;
    KeyValues in_small_form = {};  // what the small form sets after all else
  };
  Kind kind = Kind::column;
  std::vector<Choice> choices;
};

// Takes [grid], [[row]], [[column]], methods and [schedule] out of the tree, as load_sweep()
// describes them. Throws Error(kind experiment) where there is nothing to sweep over, or too much.
std::vector<SweepAxis> take_axes(Json& tree, const Methods& known);

}  // namespace winnow
