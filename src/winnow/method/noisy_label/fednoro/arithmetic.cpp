#include "winnow/method/noisy_label/fednoro/arithmetic.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "winnow/base/math.h"
#include "winnow/base/random.h"

namespace winnow::fednoro {
namespace {

constexpr int kStarts = 9;

std::set<std::int64_t> upper_component(const Rows& rows, const std::vector<std::int64_t>& clients,
                                       std::uint64_t seed, const std::function<void()>& pause) {
  const VectorMixture mixture = gmm2_vectors(rows, seed, {}, pause);
  std::set<std::int64_t> upper;
  if (mixture.iterations == 0) {
    return upper;
  }
  const auto sum = [&](std::size_t c) {
    return std::accumulate(mixture.means[c].begin(), mixture.means[c].end(), 0.0);
  };
  const int noisy = sum(1) > sum(0) ? 1 : 0;
  for (std::size_t k = 0; k < clients.size(); ++k) {
    if (mixture.labels[k] == noisy) {
      upper.insert(clients[k]);
    }
  }
  return upper;
}

}  // namespace

ClassLosses class_losses(std::span<const double> losses, std::span<const std::int64_t> labels,
                         std::size_t classes) {
  ClassLosses own{std::vector<double>(classes, 0.0), std::vector<double>(classes, 0.0)};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(labels[i]);
    own.mean[label] += losses[i];
    ++own.count[label];
  }
  for (std::size_t c = 0; c < classes; ++c) {
    own.mean[c] = own.count[c] > 0.0 ? own.mean[c] / own.count[c] : 0.0;
  }
  return own;
}

// spec: rivals 2.2
Rows comparable(const std::map<std::int64_t, ClassLosses>& clients) {
  Rows rows;
  for (const auto& [client, own] : clients) {
    rows.push_back(own.mean);
  }
  const std::size_t classes = rows.empty() ? 0 : rows.front().size();
  for (std::size_t c = 0; c < classes; ++c) {
    double low = std::numeric_limits<double>::infinity();
    double high = -low;
    for (const auto& [client, own] : clients) {
      if (own.count[c] > 0.0) {
        low = std::min(low, own.mean[c]);
        high = std::max(high, own.mean[c]);
      }
    }
    std::size_t k = 0;
    for (const auto& [client, own] : clients) {
      const double value = own.count[c] > 0.0 ? own.mean[c] : low;
      rows[k++][c] = high > low ? (value - low) / (high - low) : 0.0;
    }
  }
  return rows;
}

// spec: rivals 2.3
std::set<std::int64_t> noisy_clients(const std::map<std::int64_t, ClassLosses>& clients,
                                     std::uint64_t seed, const std::function<void()>& pause) {
  const Rows rows = comparable(clients);
  std::vector<std::int64_t> ids;
  for (const auto& [client, own] : clients) {
    ids.push_back(client);
  }
  std::vector<std::set<std::int64_t>> votes;
  for (int start = 0; start < kStarts; ++start) {
    votes.push_back(upper_component(
        rows, ids, stream_key(seed, "fednoro", {static_cast<std::uint64_t>(start)}), pause));
  }
  return *std::ranges::max_element(votes, {}, [&](const std::set<std::int64_t>& vote) {
    return std::ranges::count(votes, vote);
  });
}

// spec: rivals 2.4
double distillation_weight(double a, std::int64_t round, std::int64_t begin, std::int64_t end) {
  if (end <= begin) {
    return a;
  }
  const auto passed = static_cast<double>(std::clamp(round, begin, end) - begin);
  const double left = 1.0 - passed / static_cast<double>(end - begin);
  return a * math::exp(-5.0 * left * left);
}

double tensor_distance(const State& a, const State& b) {
  double sum = 0.0;
  for (const Slot& slot : a.layout->slots()) {
    if (slot.kind != SlotKind::counter) {
      sum += (a.view(slot).to(at::kDouble) - b.view(slot).to(at::kDouble)).norm().item<double>();
    }
  }
  return sum;
}

// spec: rivals 2.5
std::vector<double> distance_factors(const HeldModels& held, const std::set<std::int64_t>& noisy) {
  const auto size = static_cast<std::size_t>(held.size());
  std::vector<double> distance(size, 0.0);
  double largest = 0.0;
  for (std::size_t k = 0; k < size; ++k) {
    if (!noisy.contains(held.clients()[k])) {
      continue;
    }
    double nearest = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < size; ++j) {
      if (!noisy.contains(held.clients()[j])) {
        nearest = std::min(nearest, tensor_distance(held.models()[k], held.models()[j]));
      }
    }
    distance[k] = nearest;
    largest = std::max(largest, nearest);
  }
  std::vector<double> factors(size, 1.0);
  if (largest > 0.0 && largest < std::numeric_limits<double>::infinity()) {
    std::ranges::transform(distance, factors.begin(),
                           [&](double own) { return math::exp(-own / largest); });
  }
  return factors;
}

}  // namespace winnow::fednoro
