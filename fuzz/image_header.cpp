// The size that a PNG or JPEG file claims to have, read before it is decoded.
#include "winnow/data/image_header.h"

#include "target.h"

using namespace winnow;

namespace {

bool same(const ImageExtent& a, const ImageExtent& b) {
  return a.width == b.width && a.height == b.height;
}

}  // namespace

// The first byte says how much of the file is there.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t kLargestSide = 0xffffffff;
  fuzz::Input input(data, size);
  const std::size_t cut = input.byte();
  return fuzz::only_errors([&] {
    const auto whole = read_image_extent(input.rest());
    const auto part = read_image_extent(input.rest().substr(0, cut));
    if (whole) {
      fuzz::require(whole->width <= kLargestSide && whole->height <= kLargestSide,
                    "sides of at most four bytes");
    }
    if (part) {
      fuzz::require(whole && same(*whole, *part), "what follows a size does not change it");
    }
  });
}
