// The initial values that PyTorch, torchvision and timm give their layers, drawn from our streams.
#pragma once

#include <cstdint>

#include "winnow/model/net.h"

namespace winnow::init {

Init zeros();
Init ones();
Init uniform(double bound);  // U(-bound, bound)
Init normal(double std);

// PyTorch's default for the weight and the bias of convolutions and linear layers, kaiming_uniform
// with a = sqrt(5): U(-1/sqrt(fan_in), 1/sqrt(fan_in)).
Init fan_in_uniform(std::int64_t fan_in);
// U(-b, b) with b = sqrt(6 / (fan_in + fan_out)).
Init xavier_uniform(std::int64_t fan_in, std::int64_t fan_out);
// Normal with std sqrt(2 / fan_out): torchvision's convolutions before a ReLU.
Init kaiming_normal(std::int64_t fan_out);
// Normal cut at -2 and 2, which are absolute values and not multiples of std, as in timm.
Init trunc_normal(double std);

}  // namespace winnow::init
