#include "winnow/federation/aggregation.h"

#include <ATen/ATen.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
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

// Gives whole pages of memory that is read no more back to the system.
void give_back(void* start, std::size_t bytes) {
  static const auto kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::size_t room = bytes;
  if (bytes >= kPage && std::align(kPage, kPage, start, room) != nullptr) {
    ::madvise(start, room / kPage * kPage, MADV_DONTNEED);
  }
}

// Block by block, so that a large sum and its mean never take more memory than the sum did.
at::Tensor mean_on_cpu(const at::Tensor& sum, double total) {
  constexpr std::int64_t kBlock = std::int64_t{1} << 19;
  at::Tensor mean = at::empty({sum.numel()}, sum.options().dtype(at::kFloat));
  double* __restrict s = sum.data_ptr<double>();
  float* __restrict m = mean.data_ptr<float>();
  const std::int64_t count = sum.numel();
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(count, begin + kBlock);
    for (std::int64_t i = begin; i < end; ++i) {
      m[i] = static_cast<float>(s[i] / total);
    }
    if (end - begin == kBlock) {
      give_back(s + begin, static_cast<std::size_t>(kBlock) * sizeof(double));
    }
  }
  return mean;
}

bool finite_on_cpu(const at::Tensor& values) {
  constexpr std::uint32_t kExponent = 0x7f80'0000;  // all its bits are set in infinities and NaNs
  const float* v = values.data_ptr<float>();
  const std::int64_t count = values.numel();
  bool finite = true;
  for (std::int64_t i = 0; i < count; ++i) {
    finite &= (std::bit_cast<std::uint32_t>(v[i]) & kExponent) != kExponent;
  }
  return finite;
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
  State mean{layout_, mean_};
  if (!mean_.defined()) {
    mean.flat = sum_.is_cpu() ? mean_on_cpu(sum_, total_) : sum_.div_(total_).to(at::kFloat);
  }
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
  if (state.flat.is_cpu() && state.flat.is_contiguous()) {
    return finite_on_cpu(state.flat);  // the sum would take a copy of the model in double
  }
  // A sum is finite only if every term is: infinities that cancel leave a NaN, and no sum of
  // floats overflows a double.
  return std::isfinite(state.flat.sum(at::kDouble).item<double>());
}

}  // namespace winnow
