// FedNS's server-side detection (spec: input-noise 1.3): two groups of scores, the lower one noisy.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "winnow/federation/by_client.h"

namespace winnow::fedns {

// Scores by client; empty for a client whose score was not finite.
using ScoreTable = ByClient<std::optional<double>>;

struct Sifting {
  std::set<std::int64_t> noisy;
  // Between the mean scores of the two groups; empty when the finite scores do not tell clients
  // apart (fewer than 2 of them, or all equal), which makes all of these clients clean.
  std::optional<double> gap;
};

// The exact one-dimensional 2-means. A client without a finite score is noisy and left out of it.
Sifting sift(const ScoreTable& scores);

}  // namespace winnow::fedns
