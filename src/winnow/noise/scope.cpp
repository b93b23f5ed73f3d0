#include "winnow/noise/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "winnow/base/error.h"

namespace winnow {

std::int64_t exact_share(double share, std::int64_t count) {
  return static_cast<std::int64_t>(std::floor(share * static_cast<double>(count) + 1e-9));
}

void NoiseScope::declare(Params& params) {
  params.add("clients", clients, "ids of the clients that this block applies to; empty: all")
      .at_least(0);
  params.add("share", share, "share of the clients, drawn at random, that this block applies to")
      .range(0, 1);
}

void NoiseScope::check(std::string_view where) const {
  if (!clients.empty() && share < 1.0) {
    throw Error(ErrorKind::experiment,
                fmt::format("{}: both clients and share restrict the block", where),
                "keep one of them");
  }
  std::vector<std::int64_t> sorted = clients;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    throw Error(ErrorKind::experiment, fmt::format("{}.clients names {} twice", where, *twice));
  }
}

std::vector<std::int64_t> NoiseScope::choose(std::int64_t federation, Stream& stream,
                                             std::string_view where) const {
  if (clients.empty()) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(federation));
    std::iota(all.begin(), all.end(), std::int64_t{0});
    return share < 1.0 ? choose_clients(all, exact_share(share, federation), stream) : all;
  }
  std::vector<std::int64_t> sorted = clients;
  std::ranges::sort(sorted);
  if (sorted.back() >= federation) {
    throw Error(ErrorKind::experiment,
                fmt::format("{}.clients names {}, but the clients are 0 to {}", where,
                            sorted.back(), federation - 1));
  }
  return sorted;
}

std::vector<std::int64_t> choose_clients(const std::vector<std::int64_t>& clients,
                                         std::int64_t count, Stream& stream) {
  std::vector<std::int64_t> chosen;
  for (const std::int64_t i : stream.sample(std::ssize(clients), count)) {
    chosen.push_back(clients[static_cast<std::size_t>(i)]);
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace winnow
