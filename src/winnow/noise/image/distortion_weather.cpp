#include "winnow/noise/image/distortion_weather.h"

#include <algorithm>
#include <vector>

#include "winnow/noise/image/filter.h"
#include "winnow/noise/image/filter_motion.h"
#include "winnow/noise/image/filter_resize.h"
#include "winnow/noise/image/plasma.h"

namespace winnow::distortion {
namespace {

struct Snow {
  double mean;
  double spread;
  double zoom;
  float threshold;
  double radius;
  double sigma;
  float mix;
};

constexpr PerSeverity<Snow> kSnow{{{.1, .2, 1, .6F, 8, 3, .95F},
                                   {.1, .2, 1, .5F, 10, 4, .9F},
                                   {.15, .3, 1.75, .55F, 10, 4, .9F},
                                   {.25, .3, 2.25, .6F, 12, 6, .85F},
                                   {.3, .3, 1.25, .65F, 14, 12, .8F}}};

}  // namespace

Rgb snow_base(const Rgb& colour, float mix) {
  const float white = 1.5F * luma(colour) + 0.5F;
  const auto whiten = [mix, white](float value) {
    return mix * value + (1.0F - mix) * std::max(value, white);
  };
  return {whiten(colour.r), whiten(colour.g), whiten(colour.b)};
}

Plane snow_flakes(std::int64_t height, std::int64_t width, int severity, Stream& stream) {
  const Snow& snow = at_severity(kSnow, severity);
  Plane layer(height, width);
  for (float& value : layer.values) {
    value = static_cast<float>(snow.mean + snow.spread * stream.normal());
  }
  layer = zoom(layer, snow.zoom);
  for (float& value : layer.values) {
    value = value < snow.threshold ? 0.0F : static_cast<float>(truncate_to_byte(value));
  }
  const std::vector<Tap> taps = motion_taps(snow.radius, snow.sigma, stream.uniform(-135.0, -45.0));
  const Plane blurred = correlate(layer, taps, Border::edge);
  std::transform(blurred.values.begin(), blurred.values.end(), layer.values.begin(), [](float v) {
    return static_cast<float>(round_to_byte(static_cast<double>(v))) / 255.0F;
  });
  Plane flakes = layer;
  std::transform(layer.values.begin(), layer.values.end(), layer.values.rbegin(),
                 flakes.values.begin(), [](float one, float turned) { return one + turned; });
  return flakes;
}

void snow(const ImageView& image, int severity, Stream& stream) {
  const Plane flakes = snow_flakes(image.height, image.width, severity, stream);
  const float mix = at_severity(kSnow, severity).mix;
  map_colours(image, [&](const Rgb& colour, std::int64_t y, std::int64_t x) {
    const Rgb base = snow_base(colour, mix);
    const float flake = flakes.row(y)[x];
    return Rgb{std::min(base.r + flake, 1.0F), std::min(base.g + flake, 1.0F),
               std::min(base.b + flake, 1.0F)};
  });
}

void fog(const ImageView& image, int severity, Stream& stream) {
  struct Fog {
    float density;
    double decay;
  };
  constexpr PerSeverity<Fog> kFog{{{.2F, 3}, {.5F, 3}, {.75F, 2.5}, {1.0F, 2}, {1.5F, 1.75}}};
  const Fog fog = at_severity(kFog, severity);
  const std::int64_t side = plasma_side(std::max(image.height, image.width));
  const Plane cloud = plasma(side, fog.decay, stream);
  const float most =
      static_cast<float>(*std::max_element(image.data, image.data + image.size())) / 255.0F;
  const float dimmed = most / (most + fog.density);
  for (std::int64_t c = 0; c < image.channels; ++c) {
    Plane plane = load_plane(image, c);
    for (std::int64_t y = 0; y < plane.height; ++y) {
      for (std::int64_t x = 0; x < plane.width; ++x) {
        float& value = plane.row(y)[x];
        value = (value + fog.density * cloud.row(y)[x]) * dimmed;
      }
    }
    store_plane(plane, image, c);
  }
}

}  // namespace winnow::distortion
