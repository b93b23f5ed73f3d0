#include "winnow/federation/fixed_sum.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"

namespace winnow {
namespace {

constexpr double kScale = static_cast<double>(std::int64_t{1} << kFractionBits);

at::Tensor on_host(const State& model) {
  return model.flat.to(at::kCPU).contiguous();
}

std::int64_t weight_by(Weighting weighting, std::int64_t samples) {
  return weighting == Weighting::samples ? samples : kEqualWeight;
}

// Where a value stands, by name.
std::string slot_of(const Layout& layout, std::int64_t place) {
  const auto slot = std::ranges::find_if(layout.slots(), [&](const Slot& each) {
    return place >= each.offset && place < each.offset + each.size;
  });
  return slot == layout.slots().end() ? "the model" : slot->name;
}

void add_scaled(std::span<const float> values, double scale, std::span<std::uint64_t> sum) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto word = static_cast<std::int64_t>(
        std::llrint(static_cast<double>(values[i]) * scale));  // |word| <= 2^62
    sum[i] += static_cast<std::uint64_t>(word);
  }
}

void add_counters(std::span<const float> values, std::int64_t weight,
                  std::span<std::uint64_t> sum) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto count = static_cast<std::int64_t>(std::llrint(static_cast<double>(values[i])));
    sum[i] += static_cast<std::uint64_t>(weight * count);
  }
}

// The parts of a model's values, by their sizes.
template <typename T>
struct Parts {
  std::span<T> parameters;
  std::span<T> buffers;
  std::span<T> counters;

  Parts(std::span<T> all, const Layout& layout) {
    const auto first = static_cast<std::size_t>(layout.parameters());
    const auto second = static_cast<std::size_t>(layout.buffers());
    parameters = all.first(first);
    buffers = all.subspan(first, second);
    counters = all.subspan(first + second);
  }
};

std::span<const float> values_in(const at::Tensor& host) {
  return {host.data_ptr<float>(), static_cast<std::size_t>(host.numel())};
}

}  // namespace

PartWeights part_weights(const SumRule& rule, std::int64_t samples) {
  return {weight_by(rule.parameters, samples), weight_by(rule.buffers, samples)};
}

std::string unfit_value(const State& model) {
  const at::Tensor host = on_host(model);
  const std::span<const float> values = values_in(host);
  const std::int64_t real = model.layout->parameters() + model.layout->buffers();
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    const double value = values[static_cast<std::size_t>(i)];
    const bool counter = i >= real;
    const double low = counter ? 0.0 : -kLargestSummed;
    const double high = counter ? kLargestCounter : kLargestSummed;
    if (!(value >= low && value <= high)) {  // also where it is no number
      return fmt::format("{} holds {:g}, a sum takes values from {:.0f} to {:.0f}",
                         slot_of(*model.layout, i), value, low, high);
    }
  }
  return {};
}

void add_words(const State& model, const PartWeights& weights, std::span<std::uint64_t> sum) {
  const at::Tensor host = on_host(model);
  const Parts<const float> values(values_in(host), *model.layout);
  const Parts<std::uint64_t> words(sum, *model.layout);
  add_scaled(values.parameters, static_cast<double>(weights.parameters) * kScale, words.parameters);
  add_scaled(values.buffers, static_cast<double>(weights.buffers) * kScale, words.buffers);
  add_counters(values.counters, weights.buffers, words.counters);
}

void FixedSum::begin(const LayoutPtr& layout, at::Device device) {
  if (layout_ == nullptr) {
    layout_ = layout;
    device_ = device;
    words_.assign(static_cast<std::size_t>(layout->total()), 0);
  } else {
    require_same_layout(*layout, *layout_);
  }
}

void FixedSum::weigh(const PartWeights& weights) {
  weights_ += weights;
  if (std::max(weights_.parameters, weights_.buffers) > kMostWeight) {
    throw Error(ErrorKind::run,
                fmt::format("the weights of a sum add up to more than {}", kMostWeight),
                "set federation.sums = \"float\", or let fewer clients take part in a round");
  }
}

void FixedSum::add(const State& model, const PartWeights& weights) {
  begin(model.layout, model.flat.device());
  weigh(weights);
  add_words(model, weights, words_);
}

void FixedSum::add(const LayoutPtr& layout, std::span<const std::uint64_t> words,
                   const PartWeights& weights) {
  begin(layout, at::kCPU);
  weigh(weights);
  for (std::size_t i = 0; i < words_.size(); ++i) {
    words_[i] += words[i];
  }
}

bool FixedSum::plausible() const {
  if (empty()) {
    return true;
  }
  const Parts<const std::uint64_t> parts(std::span<const std::uint64_t>(words_), *layout_);
  const auto within = [](std::span<const std::uint64_t> words, double least, double most) {
    return std::ranges::all_of(words, [&](std::uint64_t word) {
      const auto value = static_cast<double>(std::bit_cast<std::int64_t>(word));
      return value >= least && value <= most;
    });
  };
  const auto most = [](std::int64_t weight, double largest) {
    return static_cast<double>(weight) * largest;
  };
  const double parameters = most(weights_.parameters, kLargestSummed * kScale);
  const double buffers = most(weights_.buffers, kLargestSummed * kScale);
  return within(parts.parameters, -parameters, parameters) &&
         within(parts.buffers, -buffers, buffers) &&
         within(parts.counters, 0.0, most(weights_.buffers, kLargestCounter));
}

State FixedSum::mean() const {
  State mean = State::zeros(layout_);
  const std::span<float> all(mean.flat.data_ptr<float>(), words_.size());
  const Parts<float> values(all, *layout_);
  const Parts<const std::uint64_t> parts(std::span<const std::uint64_t>(words_), *layout_);
  const auto divide = [](std::span<const std::uint64_t> words, double by, std::span<float> into) {
    for (std::size_t i = 0; i < words.size() && by > 0.0; ++i) {
      into[i] = static_cast<float>(static_cast<double>(std::bit_cast<std::int64_t>(words[i])) / by);
    }
  };
  divide(parts.parameters, static_cast<double>(weights_.parameters) * kScale, values.parameters);
  divide(parts.buffers, static_cast<double>(weights_.buffers) * kScale, values.buffers);
  divide(parts.counters, static_cast<double>(weights_.buffers), values.counters);
  mean.counters().round_();
  return mean.to(device_);
}

}  // namespace winnow
