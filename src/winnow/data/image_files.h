// Images from PNG and JPEG files, decoded and brought to one size. Needs a build with OpenCV.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "winnow/data/data_set.h"

namespace winnow {

struct ImageEntry {
  std::filesystem::path file;
  std::int64_t label = 0;

  bool operator==(const ImageEntry&) const = default;
};

// Whether this build reads image files at all.
bool can_decode_images();

// A file that looks like an image by its extension: png, jpg or jpeg in any case.
bool is_image_name(const std::filesystem::path& file);

// Decodes every file to RGB and resizes it (bilinear, the shape is not kept) to a square of
// `image_size`; grey images become three equal channels. Throws Error(kind data) naming the first
// file that cannot be read, or saying what is missing in a build without OpenCV.
Samples decode_images(std::span<const ImageEntry> entries, std::int64_t image_size);

}  // namespace winnow
