#include "winnow/federation/part_mean.h"

#include <algorithm>
#include <utility>

namespace winnow {

void add_weighted(std::span<const float> values, double weight, std::span<double> sum) {
  double* __restrict s = sum.data();
  const float* __restrict v = values.data();
  for (std::size_t i = 0; i < values.size(); ++i) {
    s[i] += weight * static_cast<double>(v[i]);
  }
}

void divide_sum(std::span<const double> sum, double total, std::span<float> into) {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    into[i] = static_cast<float>(sum[i] / total);
  }
}

PartMean::PartMean(LayoutPtr layout, Stretch stretch)
    : layout_(std::move(layout)),
      stretch_(stretch),
      sum_(static_cast<std::size_t>(stretch.size()), 0.0) {}

std::size_t PartMean::parameters() const {
  const std::int64_t end = std::min(layout_->parameters(), stretch_.end);
  return static_cast<std::size_t>(std::max<std::int64_t>(0, end - stretch_.begin));
}

void PartMean::add(std::span<const float> values, const PartWeights& weights) {
  const std::size_t first = parameters();
  const std::span<double> sum(sum_);
  const auto parameters_weight = static_cast<double>(weights.parameters);
  const auto buffers_weight = static_cast<double>(weights.buffers);
  add_weighted(values.first(first), parameters_weight, sum.first(first));
  add_weighted(values.subspan(first), buffers_weight, sum.subspan(first));
  parameters_weight_ += parameters_weight;
  buffers_weight_ += buffers_weight;
}

void PartMean::write(std::span<float> into) const {
  const std::size_t first = parameters();
  const std::span<const double> sum(sum_);
  const auto divide = [](std::span<const double> part, double total, std::span<float> to) {
    if (total > 0.0) {
      divide_sum(part, total, to);
    } else {
      std::ranges::fill(to, 0.0F);
    }
  };
  divide(sum.first(first), parameters_weight_, into.first(first));
  divide(sum.subspan(first), buffers_weight_, into.subspan(first));
}

}  // namespace winnow
