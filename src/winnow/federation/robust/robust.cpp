#include "winnow/federation/robust/robust.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/robust/robust_line.h"

namespace winnow {
namespace {

constexpr std::int64_t kLineBlock = 4096;
constexpr double kConverged = 1e-5;
constexpr std::int64_t kMostReweightings = 100;

[[noreturn]] void nobody_contributed() {
  throw Error(ErrorKind::run, "no client contributed to this round",
              "lower the noise or raise federation.fraction");
}

std::vector<double> shares(std::span<const double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!(total > 0.0)) {
    nobody_contributed();
  }
  std::vector<double> shares(weights.begin(), weights.end());
  for (double& share : shares) {
    share /= total;
  }
  return shares;
}

// The mean of the coordinates [begin, end) with weights that add up to one.
std::vector<double> mean_of_block(const ModelRows& rows, std::span<const double> weights,
                                  std::int64_t begin, std::int64_t end) {
  std::vector<double> mean(static_cast<std::size_t>(end - begin), 0.0);
  double* __restrict to = mean.data();
  for (std::int64_t k = 0; k < rows.size(); ++k) {
    const float* __restrict values = rows.row(k) + begin;
    const double weight = weights[static_cast<std::size_t>(k)];
    for (std::int64_t i = 0; i < end - begin; ++i) {
      to[i] += weight * static_cast<double>(values[i]);
    }
  }
  return mean;
}

// The mean of every column of a tile of sorted keys without `per_end` rows at each end.
void mean_of_sorted(std::span<const std::int32_t> keys, std::int64_t per_end, double* mean) {
  const std::int32_t* key = keys.data() + per_end * kLanes;
  const std::int32_t* last = keys.data() + (std::ssize(keys) - per_end * kLanes);
  const std::int64_t rows = (last - key) / kLanes;
  const auto kept = static_cast<double>(rows);
  double sum[kLanes];
  std::transform(key, key + kLanes, sum, value_of);
  for (key += kLanes; key != last; key += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      sum[lane] += static_cast<double>(value_of(key[lane]));
    }
  }
  std::transform(sum, sum + kLanes, mean, [kept](double total) { return total / kept; });
}

// The same, weighted, of a tile of values with their ranks.
void mean_of_ranks(std::span<const float> tile, std::span<const std::int32_t> ranks,
                   std::span<const double> factors, std::int64_t per_end, double* mean) {
  const auto first = static_cast<std::int32_t>(per_end);
  const auto last = static_cast<std::int32_t>(std::ssize(factors) - per_end);
  double sum[kLanes] = {};
  double weight[kLanes] = {};
  for (std::size_t k = 0; k < factors.size(); ++k) {
    const float* __restrict value = tile.data() + k * kLanes;
    const std::int32_t* __restrict rank = ranks.data() + k * kLanes;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const std::int32_t inside = (rank[lane] >= first ? -1 : 0) & (rank[lane] < last ? -1 : 0);
      // A value outside may be infinite. Its bits are masked, for GCC makes branches of a choice.
      const auto kept = std::bit_cast<float>(std::bit_cast<std::int32_t>(value[lane]) & inside);
      sum[lane] += factors[k] * static_cast<double>(kept);
      weight[lane] -= factors[k] * static_cast<double>(inside);
    }
  }
  std::transform(sum, sum + kLanes, weight, mean, std::divides{});
}

// What one pass over the models learns about the mean z with the given weights.
struct MedianPass {
  std::vector<double> distances;  // of the models from z
  double change = 0.0;            // ||z - z_before|| / ||z||
};

// Measures z; `before` are the weights of the last pass, or empty to leave `change` alone.
MedianPass measure(const ModelRows& rows, std::span<const double> weights,
                   std::span<const double> before, std::size_t threads) {
  const auto models = static_cast<std::size_t>(rows.size());
  std::vector<double> sums = sum_over_blocks(
      rows.coordinates(), kLineBlock, models + 2, threads,
      [&](std::int64_t begin, std::int64_t end, std::span<double> partial) {
        const std::vector<double> z = mean_of_block(rows, weights, begin, end);
        for (std::size_t k = 0; k < models; ++k) {
          partial[k] = squared_distance(rows.row(static_cast<std::int64_t>(k)) + begin, z.data(),
                                        end - begin);
        }
        if (!before.empty()) {
          const std::vector<double> old = mean_of_block(rows, before, begin, end);
          for (std::size_t i = 0; i < z.size(); ++i) {
            partial[models] += (z[i] - old[i]) * (z[i] - old[i]);
            partial[models + 1] += z[i] * z[i];
          }
        }
      });
  MedianPass pass;
  pass.change = std::sqrt(sums[models] / std::max(sums[models + 1], 1e-300));
  sums.resize(models);
  for (double& sum : sums) {
    sum = std::sqrt(sum);
  }
  pass.distances = std::move(sums);
  return pass;
}

}  // namespace

void HeldModels::add(std::int64_t client, const State& model, double weight, double samples) {
  if (models_.empty()) {
    device_ = model.flat.device();
  } else if (model.layout != models_.front().layout && *model.layout != *models_.front().layout) {
    throw Error(ErrorKind::peer, "models of different layouts cannot be aggregated");
  }
  const auto place = std::ranges::upper_bound(clients_, client) - clients_.begin();
  clients_.insert(clients_.begin() + place, client);
  models_.insert(models_.begin() + place, model.to(at::kCPU));
  weights_.insert(weights_.begin() + place, weight);
  samples_.insert(samples_.begin() + place, samples);
}

void HeldModels::clear() {
  *this = {};
}

HeldModels HeldModels::take() {
  if (models_.empty()) {
    nobody_contributed();
  }
  return std::exchange(*this, {});
}

std::vector<std::int64_t> HeldModels::clients_at(std::span<const std::int64_t> places) const {
  std::vector<std::int64_t> clients;
  for (const std::int64_t place : places) {
    clients.push_back(clients_[static_cast<std::size_t>(place)]);
  }
  return clients;
}

State coordinate_median(std::span<const State> models, std::size_t threads) {
  const ModelRows rows(models);
  const ColumnSort sort(rows.size());
  State result = State::zeros(models.front().layout);
  auto* to = result.flat.data_ptr<float>();
  for_each_block(rows.coordinates(), kLineBlock, threads,
                 [&](std::int64_t first, std::int64_t last) {
                   std::vector<float> tile(models.size() * kLanes);
                   std::vector<std::int32_t> keys(tile.size());
                   const std::int32_t* below = keys.data() + (rows.size() - 1) / 2 * kLanes;
                   const std::int32_t* above = keys.data() + rows.size() / 2 * kLanes;
                   for_each_tile(first, last, [&](std::int64_t begin, std::int64_t end) {
                     rows.load(begin, end, tile.data());
                     std::ranges::transform(tile, keys.begin(), key_of);
                     sort(keys.data());
                     for (std::int64_t lane = 0; lane < end - begin; ++lane) {
                       to[begin + lane] =
                           static_cast<float>(0.5 * (static_cast<double>(value_of(below[lane])) +
                                                     static_cast<double>(value_of(above[lane]))));
                     }
                   });
                 });
  average_counters(models, std::vector<double>(models.size(), 1.0), result);
  return result;
}

State trimmed_mean(std::span<const State> models, std::span<const double> factors,
                   std::int64_t per_end, std::size_t threads) {
  const ModelRows rows(models);
  const ColumnSort sort(rows.size());
  const bool weighted = std::ranges::adjacent_find(factors, std::not_equal_to{}) != factors.end();
  State result = State::zeros(models.front().layout);
  auto* to = result.flat.data_ptr<float>();
  for_each_block(rows.coordinates(), kLineBlock, threads,
                 [&](std::int64_t first, std::int64_t last) {
                   std::vector<float> tile(models.size() * kLanes);
                   std::vector<std::int32_t> keys(tile.size());  // or ranks
                   double mean[kLanes];
                   for_each_tile(first, last, [&](std::int64_t begin, std::int64_t end) {
                     rows.load(begin, end, tile.data());
                     if (weighted) {
                       rank_columns(tile.data(), rows.size(), keys.data());
                       mean_of_ranks(tile, keys, factors, per_end, mean);
                     } else {
                       std::ranges::transform(tile, keys.begin(), key_of);
                       sort(keys.data());
                       mean_of_sorted(keys, per_end, mean);
                     }
                     std::transform(mean, mean + (end - begin), to + begin,
                                    [](double value) { return static_cast<float>(value); });
                   });
                 });
  average_counters(models, std::vector<double>(models.size(), 1.0), result);
  return result;
}

GeometricMedian geometric_median(std::span<const State> models, std::span<const double> weights,
                                 const GeometricMedianOptions& options, std::size_t threads) {
  const std::vector<double> share = shares(weights);
  const ModelRows rows(models);
  const std::int64_t most = options.until_converged ? kMostReweightings : options.reweightings;
  std::vector<double> current = share;
  std::vector<double> before;
  MedianPass pass = measure(rows, current, before, threads);
  std::int64_t done = 0;
  while (done < most && !(options.until_converged && done > 0 && pass.change < kConverged)) {
    before = options.until_converged ? current : std::vector<double>{};
    for (std::size_t k = 0; k < share.size(); ++k) {
      current[k] = share[k] / std::max(options.smallest_distance, pass.distances[k]);
    }
    current = shares(current);
    pass = measure(rows, current, before, threads);
    ++done;
  }
  WeightedMean mean;
  for (std::size_t k = 0; k < models.size(); ++k) {
    mean.add(models[k], current[k]);
  }
  return {mean.finish(), done + 1,
          std::inner_product(share.begin(), share.end(), pass.distances.begin(), 0.0)};
}

}  // namespace winnow
