// Rules that choose among models by their distances from each other: Krum, Multi-Krum and Bulyan
// (spec: baselines 11 and 12).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/federation/robust/robust_blocks.h"
#include "winnow/model/state.h"

namespace winnow {

// Squared distances between models, symmetric with a zero diagonal.
class Distances {
 public:
  explicit Distances(std::int64_t size)
      : size_(size), values_(static_cast<std::size_t>(size * size), 0.0) {}

  std::int64_t size() const { return size_; }
  double at(std::int64_t a, std::int64_t b) const {
    return values_[static_cast<std::size_t>(a * size_ + b)];
  }
  void set(std::int64_t a, std::int64_t b, double value);

 private:
  std::int64_t size_;
  std::vector<double> values_;
};

// Over parameters and buffers: differences first, then squares, added up in double precision.
Distances squared_distances(std::span<const State> models,
                            std::size_t threads = aggregation_threads());

// Krum's scores of the models at these places among each other: the sum of the max(1, m - f - 2)
// smallest distances to the others, where m is the number of places.
std::vector<double> krum_scores(const Distances& distances, std::span<const std::int64_t> places,
                                std::int64_t byzantine);
std::vector<double> krum_scores(const Distances& distances, std::int64_t byzantine);

// The places of the `keep` lowest scores, lowest first, of equal ones the lower place first.
std::vector<std::int64_t> lowest(std::span<const double> scores, std::int64_t keep);

// How many of m models are taken to be bad when nobody says: int(0.2 m).
std::int64_t default_byzantine(std::int64_t models);

// The m - 2f places that Krum chooses one after the other from those that are left.
std::vector<std::int64_t> bulyan_selection(const Distances& distances, std::int64_t byzantine);

// The mean of the `keep` values closest to their median; of equally close ones the earlier counts.
double mean_around_median(std::span<const float> values, std::int64_t keep);

// That mean for every coordinate, with the models in the order of selection. Counters become the
// plain mean. Needs 1 <= keep <= models.
State mean_around_median(std::span<const State> models, std::int64_t keep,
                         std::size_t threads = aggregation_threads());

}  // namespace winnow
