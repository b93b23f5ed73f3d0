#include "winnow/noise/image/distortion_blur.h"

#include <utility>
#include <vector>

#include "winnow/noise/image/filter.h"
#include "winnow/noise/image/filter_motion.h"
#include "winnow/noise/image/filter_resize.h"

namespace winnow::distortion {
namespace {

struct Glass {
  double sigma;
  std::int64_t reach;
  int iterations;
};

void blur_all_channels(const ImageView& image, double sigma) {
  for (std::int64_t c = 0; c < image.channels; ++c) {
    store_plane(gaussian_filter(load_plane(image, c), sigma), image, c);
  }
}

// -reach .. reach-1: the upper end is excluded, as in the benchmark.
std::int64_t shift(std::int64_t reach, Stream& stream) {
  return static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(2 * reach))) - reach;
}

void exchange_pixels(const ImageView& image, std::int64_t reach, Stream& stream,
                     GlassExchange exchange) {
  for (std::int64_t y = image.height - reach; y > reach; --y) {
    for (std::int64_t x = image.width - reach; x > reach; --x) {
      const std::int64_t dx = shift(reach, stream);
      const std::int64_t dy = shift(reach, stream);
      for (std::int64_t c = 0; c < image.channels; ++c) {
        std::uint8_t& here = image.channel(c)[y * image.width + x];
        std::uint8_t& there = image.channel(c)[(y + dy) * image.width + x + dx];
        if (exchange == GlassExchange::true_swap) {
          std::swap(here, there);
        } else {
          here = there;
        }
      }
    }
  }
}

}  // namespace

void gaussian_blur(const ImageView& image, int severity) {
  constexpr PerSeverity<double> kSigma{.4, .6, .7, .8, 1.0};
  blur_all_channels(image, at_severity(kSigma, severity));
}

void defocus_blur(const ImageView& image, int severity) {
  const std::vector<Tap>& taps = defocus_taps(severity);
  for (std::int64_t c = 0; c < image.channels; ++c) {
    store_plane(correlate(load_plane(image, c), taps, Border::reflect_101), image, c);
  }
}

void glass_blur(const ImageView& image, int severity, Stream& stream, GlassExchange exchange) {
  constexpr PerSeverity<Glass> kGlass{
      {{.05, 1, 1}, {.25, 1, 1}, {.4, 1, 1}, {.25, 1, 2}, {.4, 1, 2}}};
  const Glass glass = at_severity(kGlass, severity);
  blur_all_channels(image, glass.sigma);
  for (int i = 0; i < glass.iterations; ++i) {
    exchange_pixels(image, glass.reach, stream, exchange);
  }
  blur_all_channels(image, glass.sigma);
}

void motion_blur(const ImageView& image, int severity, Stream& stream) {
  struct Motion {
    double radius;
    double sigma;
  };
  constexpr PerSeverity<Motion> kMotion{{{6, 1}, {6, 1.5}, {6, 2}, {8, 2}, {9, 2.5}}};
  const Motion motion = at_severity(kMotion, severity);
  const std::vector<Tap> taps =
      motion_taps(motion.radius, motion.sigma, stream.uniform(-45.0, 45.0));
  for (std::int64_t c = 0; c < image.channels; ++c) {
    store_levels(correlate(load_levels(image, c), taps, Border::edge), image, c);
  }
}

void zoom_blur(const ImageView& image, int severity) {
  const std::vector<double> factors = zoom_factors(severity);
  const float share = 1.0F / static_cast<float>(factors.size() + 1);
  for (std::int64_t c = 0; c < image.channels; ++c) {
    const Plane plane = load_plane(image, c);
    Plane sum = plane;
    for (const double factor : factors) {
      const Plane zoomed = zoom(plane, factor);
      for (std::size_t i = 0; i < sum.values.size(); ++i) {
        sum.values[i] += zoomed.values[i];
      }
    }
    for (float& value : sum.values) {
      value *= share;
    }
    store_plane(sum, image, c);
  }
}

}  // namespace winnow::distortion
