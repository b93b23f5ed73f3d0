#include "winnow/federation/aggregation.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "winnow/base/error.h"

namespace winnow {
namespace {

void add_on_cpu(at::Tensor& sum, const at::Tensor& values, double weight) {
  double* __restrict s = sum.data_ptr<double>();
  const float* __restrict v = values.data_ptr<float>();
  const std::int64_t count = sum.numel();
  for (std::int64_t i = 0; i < count; ++i) {
    s[i] += weight * static_cast<double>(v[i]);
  }
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
    add_on_cpu(sum_, state.flat, weight);
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
  State mean{layout_, mean_.defined() ? mean_ : sum_.div_(total_).to(at::kFloat)};
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
