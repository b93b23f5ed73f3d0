#include "winnow/federation/robust/robust_distance.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace winnow {
namespace {

constexpr std::int64_t kDistanceBlock = std::int64_t{1} << 14;
constexpr std::int64_t kPiece = 1024;  // of all models together it stays in the cache
constexpr std::int64_t kTileBlock = 4096;

std::vector<std::int64_t> all_places(std::int64_t size) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(size));
  std::iota(places.begin(), places.end(), std::int64_t{0});
  return places;
}

// The middle of sorted values `stride` apart.
double middle(const std::int32_t* keys, std::int64_t count, std::int64_t stride) {
  return 0.5 * (static_cast<double>(value_of(keys[(count - 1) / 2 * stride])) +
                static_cast<double>(value_of(keys[count / 2 * stride])));
}

// The mean around the median of one sorted column; nothing when the choice between two equally
// close values needs the order of selection.
std::optional<double> mean_in_column(const std::int32_t* keys, std::int64_t count,
                                     std::int64_t keep) {
  const auto value = [&](std::int64_t i) {
    return static_cast<double>(value_of(keys[i * kLanes]));
  };
  const double centre = middle(keys, count, kLanes);
  // The closest values are neighbours: move the window up while that replaces a farther value.
  std::int64_t first = 0;
  for (; first + keep < count; ++first) {
    const double low = value(first);
    const double high = value(first + keep);
    if (centre - low == high - centre && low != high) {
      return std::nullopt;
    }
    if (centre - low <= high - centre) {
      break;
    }
  }
  double sum = 0.0;
  for (std::int64_t i = first; i < first + keep; ++i) {
    sum += value(i);
  }
  return sum / static_cast<double>(keep);
}

}  // namespace

void Distances::set(std::int64_t a, std::int64_t b, double value) {
  values_[static_cast<std::size_t>(a * size_ + b)] = value;
  values_[static_cast<std::size_t>(b * size_ + a)] = value;
}

Distances squared_distances(std::span<const State> models, std::size_t threads) {
  const ModelRows rows(models);
  const std::int64_t count = rows.size();
  const std::vector<double> sums = sum_over_blocks(
      rows.coordinates(), kDistanceBlock, static_cast<std::size_t>(count * (count - 1) / 2),
      threads, [&](std::int64_t first, std::int64_t last, std::span<double> partial) {
        for (std::int64_t begin = first; begin < last; begin += kPiece) {
          const std::int64_t size = std::min(kPiece, last - begin);
          auto sum = partial.begin();
          for (std::int64_t a = 1; a < count; ++a) {
            for (std::int64_t b = 0; b < a; ++b) {
              *sum++ += squared_distance(rows.row(a) + begin, rows.row(b) + begin, size);
            }
          }
        }
      });
  Distances distances(count);
  auto sum = sums.begin();
  for (std::int64_t a = 1; a < count; ++a) {
    for (std::int64_t b = 0; b < a; ++b) {
      distances.set(a, b, *sum++);
    }
  }
  return distances;
}

std::vector<double> krum_scores(const Distances& distances, std::span<const std::int64_t> places,
                                std::int64_t byzantine) {
  const auto count = std::ssize(places);
  const std::int64_t near = std::min(std::max<std::int64_t>(1, count - byzantine - 2), count - 1);
  std::vector<double> scores;
  for (const std::int64_t place : places) {
    std::vector<double> others;
    for (const std::int64_t other : places) {
      if (other != place) {
        others.push_back(distances.at(place, other));
      }
    }
    std::ranges::sort(others);
    scores.push_back(std::accumulate(others.begin(), others.begin() + near, 0.0));
  }
  return scores;
}

std::vector<double> krum_scores(const Distances& distances, std::int64_t byzantine) {
  return krum_scores(distances, all_places(distances.size()), byzantine);
}

std::vector<std::int64_t> lowest(std::span<const double> scores, std::int64_t keep) {
  std::vector<std::int64_t> places = all_places(std::ssize(scores));
  std::ranges::stable_sort(
      places, {}, [&](std::int64_t place) { return scores[static_cast<std::size_t>(place)]; });
  places.resize(std::min(places.size(), static_cast<std::size_t>(keep)));
  return places;
}

std::int64_t default_byzantine(std::int64_t models) {
  return models / 5;
}

std::vector<std::int64_t> bulyan_selection(const Distances& distances, std::int64_t byzantine) {
  std::vector<std::int64_t> left = all_places(distances.size());
  std::vector<std::int64_t> selected;
  for (std::int64_t i = 0; i < distances.size() - 2 * byzantine; ++i) {
    const auto winner = left.begin() + lowest(krum_scores(distances, left, byzantine), 1).front();
    selected.push_back(*winner);
    left.erase(winner);
  }
  return selected;
}

double mean_around_median(std::span<const float> values, std::int64_t keep) {
  std::vector<float> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double centre = 0.5 * (static_cast<double>(sorted[(sorted.size() - 1) / 2]) +
                               static_cast<double>(sorted[sorted.size() / 2]));
  std::vector<double> by_closeness(values.begin(), values.end());
  std::ranges::stable_sort(by_closeness, {},
                           [&](double value) { return std::abs(value - centre); });
  return std::accumulate(by_closeness.begin(), by_closeness.begin() + keep, 0.0) /
         static_cast<double>(keep);
}

State mean_around_median(std::span<const State> models, std::int64_t keep, std::size_t threads) {
  const ModelRows rows(models);
  const ColumnSort sort(rows.size());
  State result = State::zeros(models.front().layout);
  auto* to = result.flat.data_ptr<float>();
  for_each_block(rows.coordinates(), kTileBlock, threads,
                 [&](std::int64_t first, std::int64_t last) {
                   std::vector<float> tile(models.size() * kLanes);
                   std::vector<std::int32_t> keys(tile.size());
                   std::vector<float> column(models.size());
                   for_each_tile(first, last, [&](std::int64_t begin, std::int64_t end) {
                     rows.load(begin, end, tile.data());
                     std::ranges::transform(tile, keys.begin(), key_of);
                     sort(keys.data());
                     for (std::int64_t i = begin; i < end; ++i) {
                       std::optional<double> mean =
                           mean_in_column(keys.data() + (i - begin), rows.size(), keep);
                       if (!mean) {
                         for (std::size_t k = 0; k < column.size(); ++k) {
                           column[k] = rows.row(static_cast<std::int64_t>(k))[i];
                         }
                         mean = mean_around_median(column, keep);
                       }
                       to[i] = static_cast<float>(*mean);
                     }
                   });
                 });
  average_counters(models, std::vector<double>(models.size(), 1.0), result);
  return result;
}

}  // namespace winnow
