// Which runs given directories hold, and what tables and reports call them.
#pragma once

#include <string>
#include <vector>

#include "winnow/sweep/sweep_index.h"

namespace winnow {

// The runs of sweep and run directories, in order, with labels under which only runs of one
// experiment meet: runs that have the same row and column differ in nothing but their seeds, and in
// where or how their output is kept (`name`, `checkpoint_every`) or
// what else is measured (`local_accuracy`).
// - A run of a sweep is called as its sweep calls it. One given by itself belongs to the cell of
//   the same experiment in a sweep given with it; else its row is its method and its column its
//   name.
// - Where that is not enough, the settings that differ follow: those of the data, the clients, the
//   noise and the model in the column, others in the row: "fedavg, rounds = 20". Finished runs that
//   were computed on another kind of device, in another precision or, on a CPU, with another
//   arithmetic count as different.
// - A run that is not finished belongs to the runs of its experiment, one that is not begun to its
//   cell of the sweep.
// - A key that a run's file does not have, since the option came later, counts as its default.
//   (Not where the method is not in the registry: then the file is all that is known.)
// Throws Error: kind run naming the folder that is neither a run nor a sweep, or the file that is
// damaged; kind usage when two runs are of one experiment and have the same seed, naming both.
std::vector<RunPlace> find_runs(const std::vector<std::string>& directories,
                                const Registry& registry = builtin_registry());

}  // namespace winnow
