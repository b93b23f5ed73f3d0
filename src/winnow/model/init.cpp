#include "winnow/model/init.h"

#include <algorithm>
#include <cmath>

namespace winnow::init {
namespace {

Init constant(float value) {
  return [value](Stream&, std::span<float> values) { std::ranges::fill(values, value); };
}

}  // namespace

Init zeros() {
  return constant(0.0F);
}

Init ones() {
  return constant(1.0F);
}

Init uniform(double bound) {
  return [bound](Stream& stream, std::span<float> values) {
    for (float& value : values) {
      value = static_cast<float>(stream.uniform(-bound, bound));
    }
  };
}

Init normal(double std) {
  return [std](Stream& stream, std::span<float> values) {
    for (float& value : values) {
      value = static_cast<float>(std * stream.normal());
    }
  };
}

Init fan_in_uniform(std::int64_t fan_in) {
  return uniform(1.0 / std::sqrt(static_cast<double>(fan_in)));
}

Init xavier_uniform(std::int64_t fan_in, std::int64_t fan_out) {
  return uniform(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
}

Init kaiming_normal(std::int64_t fan_out) {
  return normal(std::sqrt(2.0 / static_cast<double>(fan_out)));
}

Init trunc_normal(double std) {
  const double cut = 2.0 / std;
  return [std, cut](Stream& stream, std::span<float> values) {
    for (float& value : values) {
      value = static_cast<float>(std * stream.truncated_normal(-cut, cut));
    }
  };
}

}  // namespace winnow::init
