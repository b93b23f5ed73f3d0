#include "winnow/noise/image/distortion_colour.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace winnow::distortion {

Hsv to_hsv(const Rgb& colour) {
  const float high = std::max({colour.r, colour.g, colour.b});
  const float range = high - std::min({colour.r, colour.g, colour.b});
  if (range <= 0.0F) {
    return {0.0F, 0.0F, high};
  }
  float sextant = 0.0F;
  if (colour.r == high) {
    sextant = (colour.g - colour.b) / range;
  } else if (colour.g == high) {
    sextant = 2.0F + (colour.b - colour.r) / range;
  } else {
    sextant = 4.0F + (colour.r - colour.g) / range;
  }
  const float hue = sextant < 0.0F ? sextant + 6.0F : sextant;
  return {hue / 6.0F, range / high, high};
}

Rgb to_rgb(const Hsv& colour) {
  const float place = colour.h * 6.0F;
  const int sextant = static_cast<int>(place);
  const float along = place - static_cast<float>(sextant);
  const float low = colour.v * (1.0F - colour.s);
  const float falling = colour.v * (1.0F - along * colour.s);
  const float rising = colour.v * (1.0F - (1.0F - along) * colour.s);
  switch (sextant % 6) {
    case 0:
      return {colour.v, rising, low};
    case 1:
      return {falling, colour.v, low};
    case 2:
      return {low, colour.v, rising};
    case 3:
      return {low, falling, colour.v};
    case 4:
      return {rising, low, colour.v};
    default:
      return {colour.v, low, falling};
  }
}

Rgb brighten(const Rgb& colour, int severity) {
  constexpr PerSeverity<float> kAdded{.05F, .1F, .15F, .2F, .3F};
  Hsv hsv = to_hsv(colour);
  hsv.v = std::clamp(hsv.v + at_severity(kAdded, severity), 0.0F, 1.0F);
  return to_rgb(hsv);
}

Rgb saturate(const Rgb& colour, int severity) {
  struct Change {
    float factor;
    float added;
  };
  constexpr PerSeverity<Change> kChange{{{.3F, 0}, {.1F, 0}, {1.5F, 0}, {2.0F, .1F}, {2.5F, .2F}}};
  const Change change = at_severity(kChange, severity);
  Hsv hsv = to_hsv(colour);
  hsv.s = std::clamp(change.factor * hsv.s + change.added, 0.0F, 1.0F);
  return to_rgb(hsv);
}

void brightness(const ImageView& image, int severity) {
  map_colours(image, [severity](const Rgb& colour, std::int64_t, std::int64_t) {
    return brighten(colour, severity);
  });
}

void contrast(const ImageView& image, int severity) {
  constexpr PerSeverity<double> kKept{.75, .5, .4, .3, .15};
  const double kept = at_severity(kKept, severity);
  for (std::int64_t c = 0; c < image.channels; ++c) {
    std::uint8_t* bytes = image.channel(c);
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < image.area(); ++i) {
      sum += bytes[i];
    }
    const double mean = static_cast<double>(sum) / static_cast<double>(image.area()) / 255.0;
    std::array<std::uint8_t, 256> table{};
    for (std::size_t level = 0; level < table.size(); ++level) {
      const double value = (static_cast<double>(level) / 255.0 - mean) * kept + mean;
      table[level] = truncate_to_byte(static_cast<float>(value));
    }
    std::transform(bytes, bytes + image.area(), bytes,
                   [&table](std::uint8_t level) { return table[level]; });
  }
}

void saturate(const ImageView& image, int severity) {
  map_colours(image, [severity](const Rgb& colour, std::int64_t, std::int64_t) {
    return saturate(colour, severity);
  });
}

}  // namespace winnow::distortion
