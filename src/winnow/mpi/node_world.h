// One world for all ranks of a node.
#pragma once

#include <functional>

#include "winnow/experiment/world.h"
#include "winnow/mpi/ranks.h"

namespace winnow {

// The first rank of a node makes the world; the others read its memory, so that a node holds the
// images once. A rank that cannot reach that memory makes the world itself. All ranks of the node
// must come here. What `make` throws, the others throw as well.
[[nodiscard]] World world_of_node(Ranks& ranks, const std::function<World()>& make);

}  // namespace winnow
