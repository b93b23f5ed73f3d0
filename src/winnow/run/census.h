// The clients of a world, counted: what each holds by true and by given label, and its noise.
#pragma once

#include "winnow/report/partition_picture.h"
#include "winnow/run/world.h"

namespace winnow {

PartitionPicture count_clients(const Experiment& experiment, const World& world);

// What `inspect --json` prints and a run directory holds as partition.json: data, train, test,
// class_names, ledger_hash and, for every client, samples, true_classes, given_classes,
// wrong_share, distorted_share and noisy. Where the truth is unknown the last three are null,
// true_classes are the labels as found, and truth_unknown says so; only_injected where noise was
// put on such labels. test_labels is "unchecked" where they were drawn from such labels.
Json census_json(const World& world, const PartitionPicture& picture);

}  // namespace winnow
