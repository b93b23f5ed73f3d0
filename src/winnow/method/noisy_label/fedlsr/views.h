// The two views of every image that FedLSR compares (spec: baselines 18). What is random about them
// is drawn beside the plan; making them is fixed arithmetic on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "winnow/base/random.h"

namespace winnow::fedlsr {

enum class Views {
  colour,    // flip, brightness, contrast, saturation, hue, greyscale
  rotation,  // by up to 30 degrees either way
};

// The knobs of `count` views, float [count, values]: for colour the columns flip, brightness,
// contrast, saturation, hue, grey; for rotation the angle in radians.
at::Tensor draw_knobs(Views views, std::int64_t count, Stream& stream);

// Pixels in [0, 1], [count, 3, height, width], changed in the order of the columns: mirrored where
// flip is 1; brightness, contrast and saturation are factors; hue is in turns of the colour circle;
// grey is 1 for an image without colour.
at::Tensor recolour(const at::Tensor& pixels, const at::Tensor& knobs);

// Images turned counter-clockwise around their middle, bilinear; what comes from outside is 0.
at::Tensor rotate(const at::Tensor& images, const at::Tensor& angles);

// The views of network input: `scale` and `shift` say how bytes were normalised (see Feed), and the
// result is normalised in the same way and of the same type.
at::Tensor make_views(Views views, const at::Tensor& images, const at::Tensor& knobs,
                      const at::Tensor& scale, const at::Tensor& shift);

}  // namespace winnow::fedlsr
