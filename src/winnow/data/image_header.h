// The size that a PNG or JPEG file claims to have, read without decoding it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace winnow {

struct ImageExtent {
  std::uint64_t width = 0;
  std::uint64_t height = 0;
};

// Nothing for what is neither PNG nor JPEG, or is cut off before it says its size.
std::optional<ImageExtent> read_image_extent(std::string_view bytes);

}  // namespace winnow
