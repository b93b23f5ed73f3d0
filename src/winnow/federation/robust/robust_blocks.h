// What the robust rules share: the models of a round as rows of numbers, and work on blocks of
// their coordinates, spread over threads, whose result does not depend on the number of threads.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "winnow/model/state.h"

namespace winnow {

// Coordinates that are worked on side by side. A tile holds one row of kLanes numbers per model;
// plain loops over a row become vector instructions.
inline constexpr std::int64_t kLanes = 32;

// As many threads as the machine has cores.
std::size_t aggregation_threads();

// The parameters and buffers of models on the CPU, one row per model. Counters are no part of it.
// The models must outlive it and have the same layout.
class ModelRows {
 public:
  explicit ModelRows(std::span<const State> models);

  std::int64_t size() const { return std::ssize(rows_); }
  std::int64_t coordinates() const { return coordinates_; }
  const float* row(std::int64_t model) const { return rows_[static_cast<std::size_t>(model)]; }
  // Copies the coordinates [begin, end), at most kLanes, into a tile; further lanes become zero.
  void load(std::int64_t begin, std::int64_t end, float* tile) const;

 private:
  std::vector<const float*> rows_;
  std::int64_t coordinates_ = 0;
};

// Calls work(begin, end, partial) for blocks of `block` coordinates, where `partial` holds `sums`
// zeros to add to; returns the sums of the partials, added in the order of blocks. Work runs on up
// to `threads` threads at once.
using BlockSums =
    std::function<void(std::int64_t begin, std::int64_t end, std::span<double> partial)>;
std::vector<double> sum_over_blocks(std::int64_t coordinates, std::int64_t block, std::size_t sums,
                                    std::size_t threads, const BlockSums& work);

// The same for work that only writes its own coordinates.
using BlockWork = std::function<void(std::int64_t begin, std::int64_t end)>;
void for_each_block(std::int64_t coordinates, std::int64_t block, std::size_t threads,
                    const BlockWork& work);

// Calls work(begin, end) for the tiles of [first, last).
template <typename Work>
void for_each_tile(std::int64_t first, std::int64_t last, const Work& work) {
  for (std::int64_t begin = first; begin < last; begin += kLanes) {
    work(begin, begin + kLanes < last ? begin + kLanes : last);
  }
}

// A whole number that orders as the float does, -0 before 0, and back.
inline std::int32_t key_of(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits < 0 ? bits ^ 0x7fffffff : bits;  // the bits of negative floats order backwards
}
inline float value_of(std::int32_t key) {
  return std::bit_cast<float>(key < 0 ? key ^ 0x7fffffff : key);
}

// Sorts every column of a tile of keys by Batcher's merge exchange (Knuth 5.2.2, algorithm M): no
// branches, so many times faster here than a selection for each column.
class ColumnSort {
 public:
  explicit ColumnSort(std::int64_t rows);
  void operator()(std::int32_t* tile) const;

 private:
  std::vector<std::pair<std::int32_t, std::int32_t>> exchanges_;
};

// ||a - b||^2 in double precision, added up in eight parts so that it can be vectorised.
template <typename Number>
double squared_distance(const float* a, const Number* b, std::int64_t size) {
  constexpr std::int64_t kParts = 8;
  double parts[kParts] = {};
  const std::int64_t whole = size / kParts * kParts;
  for (std::int64_t i = 0; i < whole; i += kParts) {
    for (std::int64_t p = 0; p < kParts; ++p) {
      const auto difference = static_cast<double>(a[i + p] - b[i + p]);
      parts[p] += difference * difference;
    }
  }
  for (std::int64_t i = whole; i < size; ++i) {
    const auto difference = static_cast<double>(a[i] - b[i]);
    parts[i - whole] += difference * difference;
  }
  return std::accumulate(std::begin(parts), std::end(parts), 0.0);
}

// Sets the counters of `result` to the rounded weighted mean of the models', the plain one where
// all weights are zero.
void average_counters(std::span<const State> models, std::span<const double> weights,
                      State& result);

}  // namespace winnow
