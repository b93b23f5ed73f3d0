// Contact sheets: rows of small images with a label each, as one picture.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace winnow {

struct ContactRow {
  std::string label;
  std::vector<at::Tensor> images;  // uint8 [channels, height, width], 1 or 3 channels
};

// The sheet as the bytes of an RGB PNG on white: an optional line of text above, then the rows,
// each with its label at the left. Every image is enlarged by the same whole factor, the least that
// makes its longer side 56 pixels or more. All images must have one size, the rows need not be
// equally long. Text is drawn in a built-in font; what it lacks is drawn as a box. Throws
// Error(kind internal) for images of another type or shape, and for a sheet without any image.
std::string contact_sheet_png(std::span<const ContactRow> rows, std::string_view header = {});

}  // namespace winnow
