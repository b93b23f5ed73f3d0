// Images of one set brought to the shape of another.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace winnow {

// Bytes [count, channels, height, width] in another shape. Colour becomes grey as
// 0.299 R + 0.587 G + 0.114 B, grey becomes three equal channels; the size is changed bilinearly,
// the proportions are not kept. Throws Error(kind data) for any other change of channels.
at::Tensor fit_images(const at::Tensor& images, std::int64_t channels, std::int64_t height,
                      std::int64_t width);

}  // namespace winnow
