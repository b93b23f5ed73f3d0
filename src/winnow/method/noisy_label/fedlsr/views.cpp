#include "winnow/method/noisy_label/fedlsr/views.h"

#include <ATen/ATen.h>

#include <numbers>

namespace winnow::fedlsr {
namespace {

// spec: baselines 18
constexpr double kJitterChance = 0.8;
constexpr double kJitter = 0.8;  // of brightness, contrast and saturation
constexpr double kHue = 0.2;
constexpr double kGreyChance = 0.2;
constexpr double kLargestAngle = std::numbers::pi / 6;

constexpr std::int64_t kColourKnobs = 6;

void draw_colour(Stream& stream, float* knobs) {
  const auto factor = [&] { return static_cast<float>(stream.uniform(1 - kJitter, 1 + kJitter)); };
  knobs[0] = stream.bernoulli(0.5) ? 1.0F : 0.0F;
  const bool jittered = stream.bernoulli(kJitterChance);
  for (int i = 1; i <= 3; ++i) {
    const float drawn = factor();
    knobs[i] = jittered ? drawn : 1.0F;
  }
  const auto hue = static_cast<float>(stream.uniform(-kHue, kHue));
  knobs[4] = jittered ? hue : 0.0F;
  knobs[5] = stream.bernoulli(kGreyChance) ? 1.0F : 0.0F;
}

at::Tensor grey(const at::Tensor& pixels) {
  return pixels.narrow(1, 0, 1) * 0.2989 + pixels.narrow(1, 1, 1) * 0.587 +
         pixels.narrow(1, 2, 1) * 0.114;
}

// Hue in turns, as colours are in [0, 1]; 0 for grey.
at::Tensor hue_of(const at::Tensor& pixels, const at::Tensor& largest, const at::Tensor& range) {
  const at::Tensor red = pixels.narrow(1, 0, 1);
  const at::Tensor green = pixels.narrow(1, 1, 1);
  const at::Tensor blue = pixels.narrow(1, 2, 1);
  const at::Tensor divisor = at::where(range.gt(0), range, at::ones_like(range));
  const at::Tensor from_red = (green - blue) / divisor;
  const at::Tensor from_green = (blue - red) / divisor + 2;
  const at::Tensor from_blue = (red - green) / divisor + 4;
  const at::Tensor sixths =
      at::where(largest.eq(red), from_red, at::where(largest.eq(green), from_green, from_blue));
  return sixths.div(6);
}

at::Tensor turn_hue(const at::Tensor& pixels, const at::Tensor& turns) {
  const at::Tensor largest = pixels.amax(1, /*keepdim=*/true);
  const at::Tensor range = largest - pixels.amin(1, /*keepdim=*/true);
  const at::Tensor sixths = (hue_of(pixels, largest, range) + turns) * 6;
  // A channel falls from the largest by `range` as the hue moves away from it.
  const auto channel = [&](double offset) {
    const at::Tensor place = (sixths + offset).remainder(6);
    return largest - range * at::minimum(place, 4 - place).clamp(0, 1);
  };
  return at::cat({channel(5), channel(3), channel(1)}, 1);
}

}  // namespace

at::Tensor draw_knobs(Views views, std::int64_t count, Stream& stream) {
  const std::int64_t width = views == Views::colour ? kColourKnobs : 1;
  at::Tensor knobs = at::empty({count, width}, at::kFloat);
  auto* row = knobs.data_ptr<float>();
  for (std::int64_t i = 0; i < count; ++i, row += width) {
    if (views == Views::colour) {
      draw_colour(stream, row);
    } else {
      *row = static_cast<float>(stream.uniform(-kLargestAngle, kLargestAngle));
    }
  }
  return knobs;
}

at::Tensor recolour(const at::Tensor& pixels, const at::Tensor& knobs) {
  const auto knob = [&](std::int64_t column) {
    return knobs.select(1, column).view({-1, 1, 1, 1});
  };
  const auto blend = [](const at::Tensor& from, const at::Tensor& to, const at::Tensor& factor) {
    return (from + factor * (to - from)).clamp(0, 1);
  };
  at::Tensor seen = at::where(knob(0).gt(0.5), pixels.flip({3}), pixels);
  seen = (seen * knob(1)).clamp(0, 1);
  seen = blend(grey(seen).mean({1, 2, 3}, /*keepdim=*/true), seen, knob(2));
  seen = blend(grey(seen), seen, knob(3));
  seen = turn_hue(seen, knob(4));
  return blend(seen, grey(seen), knob(5));
}

at::Tensor rotate(const at::Tensor& images, const at::Tensor& angles) {
  const at::Tensor cosine = angles.cos();
  const at::Tensor sine = angles.sin();
  const at::Tensor zero = at::zeros_like(cosine);
  // Coordinates run from -1 to 1 whatever the sides, so turning has to know how they compare.
  const double ratio = static_cast<double>(images.size(2)) / static_cast<double>(images.size(3));
  const at::Tensor map =
      at::stack({cosine, sine.mul(-ratio), zero, sine.div(ratio), cosine, zero}, 1)
          .view({-1, 2, 3});
  const at::Tensor grid = at::affine_grid_generator(map, images.sizes(), /*align_corners=*/false);
  constexpr std::int64_t kBilinear = 0;
  constexpr std::int64_t kZeros = 0;
  return at::grid_sampler(images, grid, kBilinear, kZeros, /*align_corners=*/false);
}

at::Tensor make_views(Views views, const at::Tensor& images, const at::Tensor& knobs,
                      const at::Tensor& scale, const at::Tensor& shift) {
  const at::Tensor whole_scale = scale * 255;
  const at::Tensor pixels = (images.to(at::kFloat) - shift) / whole_scale;
  const at::Tensor seen =
      views == Views::colour ? recolour(pixels, knobs) : rotate(pixels, knobs.select(1, 0));
  return (seen * whole_scale + shift)
      .to(images.scalar_type(), /*non_blocking=*/false, /*copy=*/false,
          images.suggest_memory_format());
}

}  // namespace winnow::fedlsr
