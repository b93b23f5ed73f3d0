#include "winnow/federation/aggregation.h"

#include <ATen/ATen.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/file_values.h"
#include "winnow/federation/part_mean.h"

namespace winnow {
namespace {

template <typename T>
std::span<T> values_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

// Gives whole pages of memory that is read no more back to the system.
void give_back(void* start, std::size_t bytes) {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::size_t room = bytes;
  if (bytes >= page && std::align(page, page, start, room) != nullptr) {
    ::madvise(start, room / page * page, MADV_DONTNEED);
  }
}

// On a CPU block by block, so that a large sum and its mean never take more memory than the sum
// did.
at::Tensor quotient(at::Tensor& sum, double total) {
  if (!sum.is_cpu()) {
    return sum.div_(total).to(at::kFloat);
  }
  constexpr std::size_t kBlock = std::size_t{1} << 19;
  at::Tensor mean = at::empty(sum.sizes(), at::kFloat);
  const std::span<double> from = values_of<double>(sum);
  const std::span<float> to = values_of<float>(mean);
  for (std::size_t begin = 0; begin < from.size(); begin += kBlock) {
    const std::span<double> block = from.subspan(begin, std::min(kBlock, from.size() - begin));
    divide_sum(block, total, to.subspan(begin, block.size()));
    if (block.size() == kBlock) {
      give_back(block.data(), block.size_bytes());
    }
  }
  return mean;
}

bool finite_on_cpu(const at::Tensor& values) {
  constexpr std::uint32_t kExponent = 0x7f80'0000;  // all its bits are set in infinities and NaNs
  bool finite = true;
  each_block(values, [&finite](std::size_t, std::span<const float> block) {
    bool all = true;
    for (const float value : block) {
      all &= (std::bit_cast<std::uint32_t>(value) & kExponent) != kExponent;
    }
    finite &= all;
  });
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
    const std::span<double> sum = values_of<double>(sum_);
    each_block(state.flat, [weight, sum](std::size_t begin, std::span<const float> block) {
      add_weighted(block, weight, sum.subspan(begin, block.size()));
    });
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

double parameter_distance(const State& a, const State& b) {
  require_same_layout(*a.layout, *b.layout);
  const std::span<float> other = values_of<float>(b.flat);
  const auto parameters = static_cast<std::size_t>(a.layout->parameters());
  double squares = 0.0;
  each_block(a.flat, [&](std::size_t begin, std::span<const float> block) {
    const std::size_t end = std::min(begin + block.size(), parameters);
    for (std::size_t i = begin; i < end; ++i) {
      const double difference =
          static_cast<double>(block[i - begin]) - static_cast<double>(other[i]);
      squares += difference * difference;
    }
  });
  return std::sqrt(squares);
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
