// What the wrong labels of a ledger are called in an audit's own quality.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "winnow/experiment/experiment.h"
#include "winnow/noise/ledger.h"

namespace winnow {

// The kind of label noise that last changed a sample's label, by sample of the training set: one of
// "symmetric", "pair", "class-dependent" and "random labels" (stats/noise_kind.h), or, where a
// block is of none of these alone, its own name. The ledger must be that of the experiment's
// blocks.
std::map<std::int64_t, std::string> label_noise_kinds(const Experiment& experiment,
                                                      const Ledger& ledger);

}  // namespace winnow
