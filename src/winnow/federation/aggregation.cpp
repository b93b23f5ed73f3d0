#include "winnow/federation/aggregation.h"

#include <ATen/ATen.h>

#include <cmath>
#include <span>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/part_mean.h"

namespace winnow {
namespace {

template <typename T>
std::span<T> values_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

at::Tensor quotient(at::Tensor& sum, double total) {
  if (!sum.is_cpu()) {
    return sum.div_(total).to(at::kFloat);
  }
  at::Tensor mean = at::empty(sum.sizes(), at::kFloat);
  divide_sum(values_of<double>(sum), total, values_of<float>(mean));
  return mean;
}

}  // namespace

void WeightedMean::add(const State& state, double weight) {
  if (!std::isfinite(weight) || weight < 0.0) {
    throw Error(ErrorKind::internal, "a model was added to an average with an impossible weight");
  }
  if (layout_ == nullptr) {
    layout_ = state.layout;
    sum_ = at::zeros({layout_->total()}, state.flat.options().dtype(at::kDouble));
  } else {
    require_same_layout(*state.layout, *layout_);
  }
  total_ += weight;
  if (sum_.is_cpu()) {
    add_weighted(values_of<float>(state.flat), weight, values_of<double>(sum_));
  } else {
    sum_.add_(state.flat, weight);  // in double, without a copy
  }
}

void WeightedMean::set(State mean) {
  layout_ = std::move(mean.layout);
  mean_ = std::move(mean.flat);
  total_ = 1.0;
}

State WeightedMean::finish() {
  if (!(total_ > 0.0)) {
    throw Error(ErrorKind::run, "no client contributed to this round",
                "lower the noise or raise federation.fraction");
  }
  State mean{layout_, mean_.defined() ? mean_ : quotient(sum_, total_)};
  mean.counters().round_();
  layout_.reset();
  sum_.reset();
  mean_.reset();
  total_ = 0.0;
  return mean;
}

void require_same_layout(const Layout& a, const Layout& b) {
  if (&a != &b && a != b) {  // mostly it is the same object
    throw Error(ErrorKind::peer, "models of different layouts cannot be averaged");
  }
}

bool all_finite(const State& state) {
  // A sum is finite only if every term is: infinities that cancel leave a NaN, and no sum of
  // floats overflows a double.
  return std::isfinite(state.flat.sum(at::kDouble).item<double>());
}

}  // namespace winnow
