// The small form of a recipe: the same methods, noises and partitions on generated data, in about a
// second a run on a CPU. It shows that a recipe works, not what it finds.
#pragma once

#include "winnow/base/json.h"
#include "winnow/experiment/registry.h"

namespace winnow {

// Makes the settings of a run small.
// - Data is generated, 3x32x32, with as many classes as the set has, at most ten; 40 samples for
//   each of at most ten clients, at least four in a round; the model is LeNet-5 without weights.
// - Three rounds of one epoch in batches of at most ten.
// - Labels from a file become redrawn labels of the same share of clients; a folder of validation
// or
//   public images becomes a part of the data.
// - Then what the recipe's own [smoke] table sets, as rows do. A key that the run does not have is
//   left out, so that one table serves several methods and partitions.
// Throws Error(kind experiment).
void shrink(Json& tree, const Json& also, const Registry& registry);

}  // namespace winnow
