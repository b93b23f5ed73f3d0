// The arithmetic of FOCUS (spec: baselines 19): how far a client is believed, and what it weighs.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace winnow::focus {

// C_k = 1 - e^{alpha E_k} / sum_j e^{alpha E_j} of the mutual losses E of a round. They sum to
// their number minus one; of a single client it is 0. Losses must be finite.
std::vector<double> credibility(std::span<const double> mutual, double alpha);

// What each model weighs, n_k C_k / max_j C_j: for equal credibility exactly the samples. Where no
// weight would be left, as for a single client, the samples too.
std::vector<double> credited_samples(std::span<const double> samples,
                                     std::span<const double> credibility);

// The shares of these weights, W_k = n_k C_k / sum_j n_j C_j.
std::vector<double> credit_weights(std::span<const double> samples,
                                   std::span<const double> credibility);

// The mutual loss each client had when it was measured before; one that was not has the mean of
// those that were, so it is believed neither more nor less than they are. 0 for all when none was.
std::vector<double> losses_before(std::span<const std::int64_t> clients,
                                  const std::map<std::int64_t, double>& known);

}  // namespace winnow::focus
