#include "winnow/noise/image/distortion_spatter.h"

#include <algorithm>
#include <array>
#include <vector>

#include "winnow/noise/image/filter.h"
#include "winnow/noise/image/filter_edge.h"

namespace winnow::distortion {
namespace {

struct Spatter {
  double mean;
  double spread;
  double sigma;
  float threshold;
  double strength;
  bool mud;
};

constexpr PerSeverity<Spatter> kSpatter{{{.62, .1, .7, .7F, .5, false},
                                         {.65, .1, .8, .7F, .5, false},
                                         {.65, .3, 1, .69F, .5, false},
                                         {.65, .1, .7, .69F, .6, true},
                                         {.65, .1, .5, .68F, .6, true}}};

constexpr Rgb kWater{175.0F / 255.0F, 238.0F / 255.0F, 238.0F / 255.0F};
constexpr Rgb kMud{63.0F / 255.0F, 42.0F / 255.0F, 20.0F / 255.0F};

// Light from the lower right: the emboss filter that turns distance into reflections.
constexpr std::array<Tap, 7> kEmboss{{{-1, -1, -2.0F},
                                      {-1, 0, -1.0F},
                                      {0, -1, -1.0F},
                                      {0, 0, 1.0F},
                                      {0, 1, 1.0F},
                                      {1, 0, 1.0F},
                                      {1, 1, 2.0F}}};

// The distance to the nearest edge of the drops, smoothed, equalised, embossed and smoothed again.
Plane reflections(const GreyImage& drops) {
  Plane distance = chamfer_distance(canny(drops, 50, 150));
  for (float& value : distance.values) {
    value = std::min(value, 20.0F);
  }
  const Plane smooth = mean_3x3(distance);
  std::vector<std::uint8_t> levels(smooth.values.size());
  std::transform(smooth.values.begin(), smooth.values.end(), levels.begin(),
                 [](float value) { return static_cast<std::uint8_t>(value); });
  equalise(levels);
  std::transform(levels.begin(), levels.end(), distance.values.begin(),
                 [](std::uint8_t level) { return static_cast<float>(level); });
  Plane embossed = correlate(distance, kEmboss, Border::reflect_101);
  for (float& value : embossed.values) {
    value = std::clamp(value, 0.0F, 255.0F);
  }
  Plane out = mean_3x3(embossed);
  for (float& value : out.values) {
    value = static_cast<float>(round_to_byte(static_cast<double>(value)));
  }
  return out;
}

}  // namespace

Plane spatter_liquid(std::int64_t height, std::int64_t width, int severity, Stream& stream) {
  const Spatter& spatter = at_severity(kSpatter, severity);
  Plane liquid(height, width);
  for (float& value : liquid.values) {
    value = static_cast<float>(spatter.mean + spatter.spread * stream.normal());
  }
  liquid = gaussian_filter(liquid, spatter.sigma);
  for (float& value : liquid.values) {
    value = value < spatter.threshold ? 0.0F : value;
  }
  return liquid;
}

Plane water_light(const Plane& liquid, float strength) {
  GreyImage drops(liquid.height, liquid.width);
  std::transform(liquid.values.begin(), liquid.values.end(), drops.values.begin(),
                 truncate_to_byte);
  Plane light = reflections(drops);
  float most = 0.0F;
  for (std::size_t i = 0; i < light.values.size(); ++i) {
    light.values[i] *= static_cast<float>(drops.values[i]);
    most = std::max(most, light.values[i]);
  }
  for (float& value : light.values) {
    value = most > 0.0F ? value / most * strength : 0.0F;
  }
  return light;
}

Plane mud_cover(const Plane& liquid, float threshold, double sigma) {
  Plane cover(liquid.height, liquid.width);
  std::transform(liquid.values.begin(), liquid.values.end(), cover.values.begin(),
                 [threshold](float value) { return value > threshold ? 1.0F : 0.0F; });
  cover = gaussian_filter(cover, sigma);
  for (float& value : cover.values) {
    value = value < 0.8F ? 0.0F : value;
  }
  return cover;
}

void spatter(const ImageView& image, int severity, Stream& stream) {
  const Spatter& spatter = at_severity(kSpatter, severity);
  const Plane liquid = spatter_liquid(image.height, image.width, severity, stream);
  if (spatter.mud) {
    const Plane cover = mud_cover(liquid, spatter.threshold, spatter.strength);
    map_colours(image, [&cover](const Rgb& colour, std::int64_t y, std::int64_t x) {
      const float m = cover.row(y)[x];
      return Rgb{colour.r + m * (kMud.r - colour.r), colour.g + m * (kMud.g - colour.g),
                 colour.b + m * (kMud.b - colour.b)};
    });
    return;
  }
  const Plane light = water_light(liquid, static_cast<float>(spatter.strength));
  map_colours(image, [&light](const Rgb& colour, std::int64_t y, std::int64_t x) {
    const float m = light.row(y)[x];
    return Rgb{std::min(colour.r + m * kWater.r, 1.0F), std::min(colour.g + m * kWater.g, 1.0F),
               std::min(colour.b + m * kWater.b, 1.0F)};
  });
}

}  // namespace winnow::distortion
