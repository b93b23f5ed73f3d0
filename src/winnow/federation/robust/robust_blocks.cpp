#include "winnow/federation/robust/robust_blocks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "winnow/base/ordered_pool.h"

namespace winnow {

std::size_t aggregation_threads() {
  return std::max(1U, std::thread::hardware_concurrency());
}

ModelRows::ModelRows(std::span<const State> models) {
  for (const State& model : models) {
    rows_.push_back(model.flat.data_ptr<float>());
    coordinates_ = model.layout->parameters() + model.layout->buffers();
  }
}

void ModelRows::load(std::int64_t begin, std::int64_t end, float* tile) const {
  const std::int64_t count = end - begin;
  for (const float* row : rows_) {
    if (count == kLanes) {
      std::copy_n(row + begin, kLanes, tile);
    } else {
      std::fill(std::copy_n(row + begin, count, tile), tile + kLanes, 0.0F);
    }
    tile += kLanes;
  }
}

std::vector<double> sum_over_blocks(std::int64_t coordinates, std::int64_t block, std::size_t sums,
                                    std::size_t threads, const BlockSums& work) {
  std::vector<double> total(sums, 0.0);
  const auto blocks = static_cast<std::size_t>((coordinates + block - 1) / block);
  const auto run = [&](std::size_t item, std::vector<double>& partial) {
    std::ranges::fill(partial, 0.0);
    const std::int64_t begin = static_cast<std::int64_t>(item) * block;
    work(begin, std::min(begin + block, coordinates), partial);
  };
  const auto fold = [&](const std::vector<double>& partial) {
    for (std::size_t i = 0; i < sums; ++i) {
      total[i] += partial[i];
    }
  };
  if (std::min(threads, blocks) <= 1) {
    std::vector<double> partial(sums);
    for (std::size_t item = 0; item < blocks; ++item) {
      run(item, partial);
      fold(partial);
    }
    return total;
  }
  OrderedPool pool(std::min(threads, blocks));
  // No more than window() items are between start and fold, so each has a place of its own.
  std::vector<std::vector<double>> partials(pool.window(), std::vector<double>(sums));
  pool.run(
      blocks,
      [&](std::size_t /*worker*/, std::size_t item) { run(item, partials[item % pool.window()]); },
      [&](std::size_t item) { fold(partials[item % pool.window()]); });
  return total;
}

void for_each_block(std::int64_t coordinates, std::int64_t block, std::size_t threads,
                    const BlockWork& work) {
  sum_over_blocks(
      coordinates, block, 0, threads,
      [&](std::int64_t begin, std::int64_t end, std::span<double>) { work(begin, end); });
}

ColumnSort::ColumnSort(std::int64_t rows) {
  const auto count = static_cast<std::int32_t>(rows);
  std::int32_t top = 1;
  while (2 * top < count) {
    top *= 2;
  }
  for (std::int32_t p = top; p > 0; p /= 2) {
    std::int32_t q = top;
    std::int32_t r = 0;
    for (std::int32_t d = p; d > 0; d = q - p, q /= 2, r = p) {
      for (std::int32_t i = 0; i + d < count; ++i) {
        if ((i & p) == r) {
          exchanges_.emplace_back(i, i + d);
        }
      }
    }
  }
}

void ColumnSort::operator()(std::int32_t* tile) const {
  for (const auto& [first, second] : exchanges_) {
    std::int32_t* __restrict low = tile + first * kLanes;
    std::int32_t* __restrict high = tile + second * kLanes;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const std::int32_t a = low[lane];
      const std::int32_t b = high[lane];
      // Not std::min, which GCC does not vectorise here.
      low[lane] = a < b ? a : b;
      high[lane] = a < b ? b : a;
    }
  }
}

void average_counters(std::span<const State> models, std::span<const double> weights,
                      State& result) {
  const std::int64_t first = result.layout->parameters() + result.layout->buffers();
  const bool plain = std::ranges::all_of(weights, [](double weight) { return weight == 0.0; });
  auto* to = result.flat.data_ptr<float>();
  for (std::int64_t i = first; i < result.layout->total(); ++i) {
    double sum = 0.0;
    double total = 0.0;
    for (std::size_t k = 0; k < models.size(); ++k) {
      const double weight = plain ? 1.0 : weights[k];
      sum += weight * static_cast<double>(models[k].flat.data_ptr<float>()[i]);
      total += weight;
    }
    to[i] = static_cast<float>(std::nearbyint(sum / total));
  }
}

}  // namespace winnow
