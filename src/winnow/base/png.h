// PNG files as bytes: what a picture needs to be opened anywhere, over zlib alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace winnow {

// The bytes of a PNG file with 8 bits per channel. `pixels` are rows from the top, pixels from the
// left, channels next to each other; 1 channel is grey, 3 are red, green and blue. Throws
// Error(kind internal) when the size is not that of the picture.
std::string encode_png(std::span<const std::uint8_t> pixels, std::int64_t width,
                       std::int64_t height, std::int64_t channels);

}  // namespace winnow
