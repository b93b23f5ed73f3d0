#include "winnow/federation/selection.h"

#include <algorithm>
#include <cmath>

#include "winnow/base/random.h"

namespace winnow {

std::int64_t participants(double fraction, std::int64_t clients) {
  const auto count =
      static_cast<std::int64_t>(std::floor(fraction * static_cast<double>(clients) + 1e-9));
  return std::min(std::max<std::int64_t>(count, 1), clients);
}

std::vector<std::int64_t> select_uniform(std::span<const std::int64_t> pool, std::int64_t count,
                                         std::uint64_t seed, std::int64_t round) {
  Stream stream(seed, "selection", round);
  const auto members = std::ssize(pool);
  std::vector<std::int64_t> chosen;
  for (const std::int64_t place : stream.sample(members, std::min(count, members))) {
    chosen.push_back(pool[static_cast<std::size_t>(place)]);
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace winnow
