// The clients of a world, counted: what each holds by true and by given label, and its noise.
#pragma once

#include "winnow/report/partition_picture.h"
#include "winnow/run/world.h"

namespace winnow {

PartitionPicture count_clients(const Experiment& experiment, const World& world);

// What `inspect --json` prints and a run directory holds as partition.json: data, train, test,
// class_names, ledger_hash and, for every client, samples, true_classes, given_classes,
// wrong_share, distorted_share and noisy.
Json census_json(const World& world, const PartitionPicture& picture);

}  // namespace winnow
