// Weighted sums of models as whole numbers modulo 2^64. Such a sum is exact and free of order, and
// masks that cancel modulo 2^64 leave it as it is: whoever adds, however and in which order, ends
// in the same bits.
//
// A value v of a model with the whole weight w is the word round(w v 2^20) (ties to even), formed
// in double precision, modulo 2^64; negative ones are the two's complement. A counter c is w c. The
// mean is the sum, as a signed number, divided by 2^20 times the sum of the weights, in double.
//
// Values lie between -4096 and 4096, counters between 0 and 2^24, and the weights of one sum add up
// to at most 2^30. So no sum is beyond 2^20 * 2^12 * 2^30 = 2^62, and nothing overflows. A model
// that has any other value does not fit: it is refused as a whole and never clipped.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "winnow/federation/exchange.h"
#include "winnow/model/state.h"

namespace winnow {

inline constexpr int kFractionBits = 20;
inline constexpr double kLargestSummed = 4096.0;
inline constexpr double kLargestCounter = 16'777'216.0;
inline constexpr std::int64_t kMostWeight = std::int64_t{1} << 30;
// What a model weighs where all weigh the same: as much as one of so many samples, so that the grid
// is as fine as it is then.
inline constexpr std::int64_t kEqualWeight = 1024;

// Of the parameters of a model, and of its running statistics and counters.
struct PartWeights {
  std::int64_t parameters = 0;
  std::int64_t buffers = 0;

  PartWeights& operator+=(const PartWeights& other) {
    parameters += other.parameters;
    buffers += other.buffers;
    return *this;
  }
};

// What a model of a client that names so many samples weighs.
[[nodiscard]] PartWeights part_weights(const SumRule& rule, std::int64_t samples);

// Why the model cannot go into a sum, by the first value that does not fit: "fc.weight holds 5000,
// a sum takes values from -4096 to 4096". Empty: it fits.
[[nodiscard]] std::string unfit_value(const State& model);

// Adds the words of a model that fits, on any device, to as many in `sum`.
void add_words(const State& model, const PartWeights& weights, std::span<std::uint64_t> sum);

class FixedSum {
 public:
  // The model must fit. Throws Error(kind run) where the weights add up to more than kMostWeight.
  void add(const State& model, const PartWeights& weights);
  // A sum that was formed elsewhere, with the sum of its weights.
  void add(const LayoutPtr& layout, std::span<const std::uint64_t> words,
           const PartWeights& weights);

  bool empty() const { return layout_ == nullptr; }
  const PartWeights& weights() const { return weights_; }
  // Whether every word is one that models which fit can add up to. Words under masks that have not
  // cancelled are not, but by chance.
  [[nodiscard]] bool plausible() const;
  // Parts without weight are zero. On the device of the first model.
  [[nodiscard]] State mean() const;

 private:
  void begin(const LayoutPtr& layout, at::Device device);
  void weigh(const PartWeights& weights);

  LayoutPtr layout_;
  at::Device device_ = at::kCPU;
  std::vector<std::uint64_t> words_;
  PartWeights weights_;
};

}  // namespace winnow
