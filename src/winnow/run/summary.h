// The summary of a run: what summary.json holds.
#pragma once

#include "winnow/run/session.h"

namespace winnow {

// Accuracies, cost, hashes, what noise there was and, where the method detects or repairs, how well
// it did against the ledger (spec: partitions M).
Json make_summary(const Session& session);

}  // namespace winnow
