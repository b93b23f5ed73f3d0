#include "winnow/method/system/fedns/sifting.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "winnow/stats/two_means.h"

namespace winnow::fedns {
namespace {

// spec: input-noise 1.3 #4
bool tell_apart(const std::vector<double>& values) {
  if (values.size() < 2) {
    return false;
  }
  const auto [low, high] = std::ranges::minmax(values);
  return high - low > 1e-12 * std::max(std::abs(low), std::abs(high));
}

}  // namespace

Sifting sift(const ScoreTable& scores) {
  Sifting sifting;
  std::vector<std::int64_t> clients;
  std::vector<double> values;
  for (const auto& [client, score] : scores) {
    if (score) {
      clients.push_back(client);
      values.push_back(*score);
    } else {
      sifting.noisy.insert(client);
    }
  }
  if (!tell_apart(values)) {
    return sifting;
  }
  const TwoMeans groups = two_means(values);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (groups.labels[i] == 0) {
      sifting.noisy.insert(clients[i]);
    }
  }
  sifting.gap = groups.centres[1] - groups.centres[0];
  return sifting;
}

}  // namespace winnow::fedns
