#include "winnow/federation/robust/robust_arfl.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/robust/robust.h"
#include "winnow/federation/robust/robust_line.h"

namespace winnow {
namespace {

constexpr std::int64_t kArflBlock = 1024;

// The values of a tile against their lines. Arrays are [clients, kLanes], by rank where not said
// otherwise. One object per thread.
struct Tile {
  Tile(std::int64_t count, const ArflOptions& options)
      : clients(count),
        limits(arfl_limits(count, options.lambda)),
        find_slopes(count),
        sort(count),
        values(static_cast<std::size_t>(count * kLanes)),
        ranks(values.size()),
        sorted(values.size()),
        residuals(values.size()),
        keys(values.size()),
        confidence(values.size()) {}

  void rank();   // from values: ranks, sorted, median
  void fit();    // slope and scale
  void judge();  // from slope and scale: confidence
  void find_deviation();
  void find_residuals();

  double centre() const { return 0.5 * static_cast<double>(clients - 1); }
  double fitted(std::int32_t rank, std::int64_t lane) const {
    return median[lane] + slope[lane] * (static_cast<double>(rank) - centre());
  }

  std::int64_t clients;
  std::vector<double> limits;
  SlopeFinder find_slopes;
  ColumnSort sort;
  std::vector<float> values;        // by client
  std::vector<std::int32_t> ranks;  // by client
  std::vector<float> sorted;
  std::vector<double> residuals;   // absolute
  std::vector<std::int32_t> keys;  // of the residuals
  std::vector<double> confidence;
  double median[kLanes] = {};
  double slope[kLanes] = {};
  double scale[kLanes] = {};
  double deviation[kLanes] = {};  // of the confidences
};

void Tile::rank() {
  rank_columns(values.data(), clients, ranks.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto lane = static_cast<std::int64_t>(i) % kLanes;
    sorted[static_cast<std::size_t>(ranks[i] * kLanes + lane)] = values[i];
  }
  const float* below = sorted.data() + (clients - 1) / 2 * kLanes;
  const float* above = sorted.data() + clients / 2 * kLanes;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    median[lane] = 0.5 * (static_cast<double>(below[lane]) + static_cast<double>(above[lane]));
  }
}

void Tile::find_residuals() {
  for (std::int64_t i = 0; i < clients; ++i) {
    const double x = static_cast<double>(i) - centre();
    const float* __restrict value = sorted.data() + i * kLanes;
    double* __restrict residual = residuals.data() + i * kLanes;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      residual[lane] =
          std::abs(static_cast<double>(value[lane]) - (median[lane] + slope[lane] * x));
    }
  }
}

void Tile::fit() {
  find_slopes(sorted.data(), slope);
  find_residuals();
  std::ranges::transform(residuals, keys.begin(),
                         [](double e) { return key_of(static_cast<float>(e)); });
  sort(keys.data());
  // The median of all but the smallest.
  const std::int32_t* below = keys.data() + clients / 2 * kLanes;
  const std::int32_t* above = keys.data() + (clients + 1) / 2 * kLanes;
  const double factor = 1.4826 * (1.0 + 5.0 / static_cast<double>(clients - 1));
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    const double typical = 0.5 * (static_cast<double>(value_of(below[lane])) +
                                  static_cast<double>(value_of(above[lane])));
    scale[lane] = factor * typical + 1e-7;
  }
}

void Tile::judge() {
  find_residuals();
  for (std::int64_t i = 0; i < clients; ++i) {
    const double limit = limits[static_cast<std::size_t>(i)];
    const double* __restrict residual = residuals.data() + i * kLanes;
    double* __restrict to = confidence.data() + i * kLanes;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const double reach = limit * scale[lane];
      // No more than 1, and 1 for no residual.
      to[lane] = reach / std::max(reach, residual[lane]);
    }
  }
}

void Tile::find_deviation() {
  double mean[kLanes] = {};
  double sum[kLanes] = {};
  for (std::int64_t i = 0; i < clients; ++i) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      mean[lane] += confidence[static_cast<std::size_t>(i * kLanes + lane)];
    }
  }
  for (double& value : mean) {
    value /= static_cast<double>(clients);
  }
  for (std::int64_t i = 0; i < clients; ++i) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const double off = confidence[static_cast<std::size_t>(i * kLanes + lane)] - mean[lane];
      sum[lane] += off * off;
    }
  }
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    deviation[lane] = std::sqrt(sum[lane] / static_cast<double>(clients - 1));
  }
}

// Line of a coordinate; its median is found again with the ranks.
struct Line {
  double slope = 0.0;
  double scale = 0.0;
};

std::vector<std::int64_t> tensors_without_dimensions(const Layout& layout) {
  std::vector<std::int64_t> offsets;
  for (const Slot& slot : layout.slots()) {
    if (slot.shape.empty()) {
      offsets.push_back(slot.offset);
    }
  }
  return offsets;
}

// Fills `lines` and returns the sums of contributions by client.
std::vector<double> fit_lines(const ModelRows& rows, const ArflOptions& options,
                              std::span<const std::int64_t> skipped, std::size_t threads,
                              std::vector<Line>& lines) {
  const auto contribute = [&](const Tile& tile, std::span<double> sums) {
    for (std::size_t i = 0; i < tile.ranks.size(); ++i) {
      const auto lane = static_cast<std::int64_t>(i) % kLanes;
      sums[i / kLanes] += tile.confidence[static_cast<std::size_t>(tile.ranks[i] * kLanes + lane)] *
                          tile.deviation[lane];
    }
  };
  return sum_over_blocks(
      rows.coordinates(), kArflBlock, static_cast<std::size_t>(rows.size()), threads,
      [&](std::int64_t first, std::int64_t last, std::span<double> partial) {
        Tile tile(rows.size(), options);
        for_each_tile(first, last, [&](std::int64_t begin, std::int64_t end) {
          rows.load(begin, end, tile.values.data());
          tile.rank();
          tile.fit();
          tile.judge();
          tile.find_deviation();
          for (const std::int64_t offset : skipped) {
            if (offset >= begin && offset < end) {
              tile.deviation[offset - begin] = 0.0;
            }
          }
          contribute(tile, partial);
          for (std::int64_t lane = 0; lane < end - begin; ++lane) {
            lines[static_cast<std::size_t>(begin + lane)] = {tile.slope[lane], tile.scale[lane]};
          }
        });
      });
}

// sum_k weights_k times the value of k, or the line's where the value is not to be trusted.
void mean_of_corrected(const ModelRows& rows, std::span<const Line> lines,
                       std::span<const double> weights, const ArflOptions& options,
                       std::size_t threads, float* to) {
  const auto corrected_mean = [&](const Tile& tile, double* sums) {
    for (std::size_t i = 0; i < tile.ranks.size(); ++i) {
      const auto lane = static_cast<std::int64_t>(i) % kLanes;
      const std::int32_t rank = tile.ranks[i];
      const bool trusted =
          tile.confidence[static_cast<std::size_t>(rank * kLanes + lane)] >= options.delta;
      const double value = trusted ? static_cast<double>(tile.values[i]) : tile.fitted(rank, lane);
      sums[lane] += weights[i / kLanes] * value;
    }
  };
  for_each_block(rows.coordinates(), kArflBlock, threads,
                 [&](std::int64_t first, std::int64_t last) {
                   Tile tile(rows.size(), options);
                   for_each_tile(first, last, [&](std::int64_t begin, std::int64_t end) {
                     rows.load(begin, end, tile.values.data());
                     tile.rank();
                     for (std::int64_t lane = 0; lane < end - begin; ++lane) {
                       const Line& line = lines[static_cast<std::size_t>(begin + lane)];
                       tile.slope[lane] = line.slope;
                       tile.scale[lane] = line.scale;
                     }
                     tile.judge();
                     double sums[kLanes] = {};
                     corrected_mean(tile, sums);
                     for (std::int64_t lane = 0; lane < end - begin; ++lane) {
                       to[begin + lane] = static_cast<float>(sums[lane]);
                     }
                   });
                 });
}

// Of three finite models or more.
Arfl arfl_of_finite(std::span<const State> models, const ArflOptions& options,
                    std::size_t threads) {
  const ModelRows rows(models);
  const LayoutPtr& layout = models.front().layout;
  std::vector<Line> lines(static_cast<std::size_t>(rows.coordinates()));
  Arfl result{State::zeros(layout), {}};
  result.weights =
      arfl_weights(fit_lines(rows, options, tensors_without_dimensions(*layout), threads, lines));
  mean_of_corrected(rows, lines, result.weights, options, threads,
                    result.model.flat.data_ptr<float>());
  average_counters(models, result.weights, result.model);
  return result;
}

}  // namespace

ArflColumn arfl_column(std::span<const float> values, const ArflOptions& options) {
  Tile tile(std::ssize(values), options);
  for (std::size_t k = 0; k < values.size(); ++k) {
    tile.values[k * kLanes] = values[k];
  }
  tile.rank();
  tile.fit();
  tile.judge();
  tile.find_deviation();
  ArflColumn column{.slope = tile.slope[0],
                    .intercept = tile.median[0] - tile.slope[0] * tile.centre(),
                    .scale = tile.scale[0],
                    .fitted = {},
                    .confidence = {},
                    .spread = tile.deviation[0]};
  for (std::size_t k = 0; k < values.size(); ++k) {
    const std::int32_t rank = tile.ranks[k * kLanes];
    column.fitted.push_back(tile.fitted(rank, 0));
    column.confidence.push_back(tile.confidence[static_cast<std::size_t>(rank * kLanes)]);
  }
  return column;
}

std::vector<double> arfl_limits(std::int64_t clients, double lambda) {
  const auto count = static_cast<double>(clients);
  const double centre = 0.5 * (count - 1.0);
  const double squares = count * (count * count - 1.0) / 12.0;  // sum of (rank - centre)^2
  std::vector<double> limits;
  for (std::int64_t rank = 0; rank < clients; ++rank) {
    const double x = static_cast<double>(rank) - centre;
    const double leverage = 1.0 / count + x * x / squares;
    limits.push_back(lambda * std::sqrt(2.0 / count) * std::sqrt(1.0 - leverage));
  }
  return limits;
}

std::vector<double> arfl_weights(std::span<const double> contributions) {
  const double largest = *std::ranges::max_element(contributions);
  if (!(largest > 0.0)) {
    return std::vector<double>(contributions.size(),
                               1.0 / static_cast<double>(contributions.size()));
  }
  std::vector<double> weights;
  for (const double contribution : contributions) {
    weights.push_back((contribution / largest) * (contribution / largest));
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) {
    weight /= total;
  }
  return weights;
}

Arfl arfl(std::span<const State> models, const ArflOptions& options, std::size_t threads) {
  std::vector<State> finite;
  std::vector<std::size_t> places;
  for (std::size_t k = 0; k < models.size(); ++k) {
    if (all_finite(models[k])) {
      finite.push_back(models[k]);
      places.push_back(k);
    }
  }
  if (finite.empty()) {
    throw Error(ErrorKind::run, "ARFL: every model held values that are not finite",
                "the training diverged: lower train.lr");
  }
  Arfl result =
      finite.size() > 2
          ? arfl_of_finite(finite, options, threads)
          : Arfl{coordinate_median(finite, threads),
                 std::vector<double>(finite.size(), 1.0 / static_cast<double>(finite.size()))};
  std::vector<double> weights(models.size(), 0.0);
  for (std::size_t i = 0; i < places.size(); ++i) {
    weights[places[i]] = result.weights[i];
  }
  result.weights = std::move(weights);
  return result;
}

}  // namespace winnow
