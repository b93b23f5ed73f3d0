#include "winnow/noise/image/distortion_image.h"

namespace winnow::distortion {

Plane load_plane(const ImageView& image, std::int64_t channel) {
  Plane plane = load_levels(image, channel);
  for (float& value : plane.values) {
    value /= 255.0F;
  }
  return plane;
}

Plane load_levels(const ImageView& image, std::int64_t channel) {
  Plane plane(image.height, image.width);
  const std::uint8_t* bytes = image.channel(channel);
  float* values = plane.values.data();
  for (std::int64_t i = 0; i < image.area(); ++i) {
    values[i] = static_cast<float>(bytes[i]);
  }
  return plane;
}

void store_plane(const Plane& plane, const ImageView& image, std::int64_t channel) {
  std::uint8_t* bytes = image.channel(channel);
  const float* values = plane.values.data();
  for (std::int64_t i = 0; i < image.area(); ++i) {
    bytes[i] = truncate_to_byte(values[i]);
  }
}

void store_levels(const Plane& plane, const ImageView& image, std::int64_t channel) {
  std::uint8_t* bytes = image.channel(channel);
  const float* values = plane.values.data();
  for (std::int64_t i = 0; i < image.area(); ++i) {
    bytes[i] = round_to_byte(static_cast<double>(values[i]));
  }
}

}  // namespace winnow::distortion
