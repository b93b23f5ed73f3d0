// Directions of features, for cosine similarities.
#pragma once

#include <ATen/core/Tensor.h>

namespace winnow {

inline constexpr double kNoLength = 1e-8;

// The rows scaled to length 1. Those not longer than kNoLength become zeros, through which no
// gradient flows.
at::Tensor unit_rows(const at::Tensor& rows);

}  // namespace winnow
