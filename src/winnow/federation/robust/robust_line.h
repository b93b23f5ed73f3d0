// Repeated-median lines through sorted values, many coordinates at a time (spec: baselines 14).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "winnow/federation/robust/robust_blocks.h"

namespace winnow {

// ranks[k, lane] is the place of tile[k, lane] in its sorted column, 0 for the smallest; of equal
// values the earlier row comes first.
void rank_columns(const float* tile, std::int64_t rows, std::int32_t* ranks);

// Finds the slope B = median_i( median_{j != i} (s_i - s_j) / (i - j) ) of the sorted columns of a
// tile. Medians of an even number are the mean of the two middle values.
//
// It does not form all rows^2 slopes. For a number b, the slope between i and j is at most b
// exactly when s_i - b i and s_j - b j are in the wrong order, so counting inversions tells which
// inner medians are at most b. A few such probes leave a handful of inner medians around the middle
// one. Only these are formed, in float32 to put them in order, and the middle ones again in double
// precision. So an inner median may end up on the wrong side of one that is equal to it but for
// float32 rounding.
//
// Holds scratch memory: one object per thread.
class SlopeFinder {
 public:
  explicit SlopeFinder(std::int64_t rows);
  // slopes[lane] for every column of `sorted`.
  void operator()(const float* sorted, double* slopes);

 private:
  // Of one column: slopes between which the middle inner medians lie, and how many inner medians
  // are at most that.
  struct Bracket {
    float start = 0.0F;  // slope of the densest half, below which there is hardly an inner median
    float low = 0.0F;
    float high = 0.0F;
    float probe = 0.0F;
    std::int32_t below_low = 0;
    std::int32_t below_high = 0;
    bool flat = false;    // so many values are equal that the slope is zero
    bool probing = true;  // not when it is flat, or float32 cannot hold the differences
    bool has_low = false;
    bool has_high = false;
    float step = 0.5F;  // doubled as long as one end is missing

    std::int32_t inside() const { return below_high - below_low; }
  };

  void start(const float* sorted);
  // How many inner medians are in the brackets of all columns together.
  std::int64_t undecided() const;
  void choose_probe(Bracket& bracket) const;
  // counts_[i, lane]: how many slopes of i are at most the column's probe.
  void count(const float* sorted);
  void narrow();
  double finish(const float* sorted, std::int64_t lane);
  // What the inner medians of a column need, in float32 to order them, in double precision to form
  // the middle ones.
  template <typename Number>
  struct Scratch {
    explicit Scratch(std::int64_t rows);
    std::vector<Number> reciprocals;  // 1 / d for d of 1 - rows to rows - 1
    std::vector<Number> slopes;
  };
  // Of row i of column_; `near` is a guess of it.
  template <typename Number>
  Number inner_median(std::int64_t i, Number near, Scratch<Number>& scratch);

  std::int64_t rows_;
  // Which of the sorted numbers make a median, from 1: of the rows_ inner medians, and of the
  // rows_ - 1 slopes in each.
  std::int32_t outer_low_, outer_high_;
  std::int32_t inner_low_, inner_high_;
  std::vector<Bracket> brackets_;
  std::vector<float> levels_;  // s_i - b i
  std::vector<std::int32_t> counts_;
  std::vector<std::int32_t> counts_low_;   // at the low end of the bracket
  std::vector<std::int32_t> counts_high_;  // at the high end
  std::vector<float> column_;
  Scratch<float> rough_;
  Scratch<double> fine_;
  std::vector<std::pair<double, std::int64_t>> medians_;  // with their rows
};

}  // namespace winnow
