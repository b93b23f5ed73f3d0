// Which clients a noise block is for.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/base/random.h"

namespace winnow {

// floor(share * count + 1e-9): the exact number of clients in a share.
std::int64_t exact_share(double share, std::int64_t count);

// The options `clients` and `share` that every noise block knows.
struct NoiseScope {
  std::vector<std::int64_t> clients;  // empty: all
  double share = 1.0;

  void declare(Params& params);
  // Throws Error(kind experiment) when both options restrict the block or an id is given twice.
  void check(std::string_view where) const;
  // The ids, ascending. A share below 1 is drawn from `stream`; nothing else is.
  std::vector<std::int64_t> choose(std::int64_t federation, Stream& stream,
                                   std::string_view where) const;
};

// Exactly `count` of `clients`, ascending.
std::vector<std::int64_t> choose_clients(const std::vector<std::int64_t>& clients,
                                         std::int64_t count, Stream& stream);

}  // namespace winnow
