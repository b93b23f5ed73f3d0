// Who takes part in a round.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

// max(1, floor(fraction * clients + 1e-9)), never more than `clients` (spec: label-noise 0.4); of
// no clients none.
[[nodiscard]] std::int64_t participants(double fraction, std::int64_t clients);

// `count` distinct members of `pool` (all of them when there are fewer), uniformly, in ascending
// order of id; keyed by seed and round.
[[nodiscard]] std::vector<std::int64_t> select_uniform(std::span<const std::int64_t> pool,
                                                       std::int64_t count, std::uint64_t seed,
                                                       std::int64_t round);

}  // namespace winnow
