#include "winnow/noise/image/filter_resize.h"

#include <algorithm>
#include <cmath>

namespace winnow::distortion {
namespace {

// For each output place of one axis: the two inputs it lies between and the share of the second.
struct Blend {
  std::int64_t low = 0;
  std::int64_t high = 0;
  float share = 0.0F;
};

std::vector<Blend> zoom_axis(std::int64_t length, double factor) {
  const ZoomGeometry zoom = zoom_geometry(length, factor);
  const double step =
      zoom.size > 1 ? static_cast<double>(zoom.crop - 1) / static_cast<double>(zoom.size - 1) : 0.0;
  std::vector<Blend> axis(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) {
    const double at = static_cast<double>(zoom.cut + i) * step;
    const auto low = std::min(static_cast<std::int64_t>(at), zoom.crop - 1);
    axis[static_cast<std::size_t>(i)] = {zoom.top + low,
                                         zoom.top + std::min(low + 1, zoom.crop - 1),
                                         static_cast<float>(at - static_cast<double>(low))};
  }
  return axis;
}

std::vector<Blend> resize_axis(std::int64_t length, std::int64_t new_length) {
  const double scale = static_cast<double>(length) / static_cast<double>(new_length);
  std::vector<Blend> axis(static_cast<std::size_t>(new_length));
  for (std::int64_t i = 0; i < new_length; ++i) {
    const double at = std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0,
                                 static_cast<double>(length - 1));
    const auto low = static_cast<std::int64_t>(at);
    axis[static_cast<std::size_t>(i)] = {low, std::min(low + 1, length - 1),
                                         static_cast<float>(at - static_cast<double>(low))};
  }
  return axis;
}

Plane blend(const Plane& plane, const std::vector<Blend>& rows, const std::vector<Blend>& columns) {
  Plane out(std::ssize(rows), std::ssize(columns));
  std::vector<float> between(static_cast<std::size_t>(plane.width));
  for (std::int64_t y = 0; y < out.height; ++y) {
    const Blend& down = rows[static_cast<std::size_t>(y)];
    const float* above = plane.row(down.low);
    const float* below = plane.row(down.high);
    float* mixed = between.data();
    for (std::int64_t x = 0; x < plane.width; ++x) {
      mixed[x] = above[x] + down.share * (below[x] - above[x]);
    }
    float* to = out.row(y);
    for (const Blend& across : columns) {
      *to++ = mixed[across.low] + across.share * (mixed[across.high] - mixed[across.low]);
    }
  }
  return out;
}

// The inputs first..last-1 that one output of the box filter averages.
struct BoxSpan {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

std::vector<BoxSpan> box_spans(std::int64_t length, std::int64_t new_length) {
  const double scale = static_cast<double>(length) / static_cast<double>(new_length);
  const double support = std::max(scale, 1.0) / 2.0;
  std::vector<BoxSpan> spans(static_cast<std::size_t>(new_length));
  for (std::int64_t i = 0; i < new_length; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = static_cast<std::int64_t>(std::floor(centre - support + 0.5));
    const auto last = static_cast<std::int64_t>(std::floor(centre + support + 0.5));
    spans[static_cast<std::size_t>(i)] = {std::max<std::int64_t>(first, 0), std::min(last, length)};
  }
  return spans;
}

std::uint8_t rounded_mean(std::int64_t sum, std::int64_t count) {
  return static_cast<std::uint8_t>((2 * sum + count) / (2 * count));
}

}  // namespace

ZoomGeometry zoom_geometry(std::int64_t length, double factor) {
  ZoomGeometry zoom;
  zoom.crop = static_cast<std::int64_t>(std::ceil(static_cast<double>(length) / factor));
  zoom.top = (length - zoom.crop) / 2;
  // Half goes to even: 26 * 1.25 = 32.5 gives 32.
  zoom.size = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(zoom.crop) * factor));
  zoom.cut = (zoom.size - length) / 2;
  return zoom;
}

Plane zoom(const Plane& plane, double factor) {
  return blend(plane, zoom_axis(plane.height, factor), zoom_axis(plane.width, factor));
}

std::vector<double> zoom_factors(int severity) {
  constexpr PerSeverity<std::size_t> kCounts{7, 12, 16, 21, 26};
  // The step as floating point sees it, 1.01 - 1: the last factor of severity 5 is then a hair
  // above 1.25, which rounds 26 * 1.25 up to 33 where snow's exact 1.25 gives 32.
  constexpr double kStep = 1.01 - 1.0;
  std::vector<double> factors(at_severity(kCounts, severity));
  for (std::size_t i = 0; i < factors.size(); ++i) {
    factors[i] = 1.0 + static_cast<double>(i) * kStep;
  }
  return factors;
}

float sample_bilinear(const Plane& plane, float y, float x, Border border) {
  const float floor_y = std::floor(y);
  const float floor_x = std::floor(x);
  const float share_y = y - floor_y;
  const float share_x = x - floor_x;
  const auto iy = static_cast<std::int64_t>(floor_y);
  const auto ix = static_cast<std::int64_t>(floor_x);
  const float* above = plane.row(border_index(iy, plane.height, border));
  const float* below = plane.row(border_index(iy + 1, plane.height, border));
  const std::int64_t left = border_index(ix, plane.width, border);
  const std::int64_t right = border_index(ix + 1, plane.width, border);
  const float top = above[left] + share_x * (above[right] - above[left]);
  const float bottom = below[left] + share_x * (below[right] - below[left]);
  return top + share_y * (bottom - top);
}

Plane resize_bilinear(const Plane& plane, std::int64_t height, std::int64_t width) {
  return blend(plane, resize_axis(plane.height, height), resize_axis(plane.width, width));
}

std::vector<std::uint8_t> resize_box(std::span<const std::uint8_t> bytes, std::int64_t height,
                                     std::int64_t width, std::int64_t new_height,
                                     std::int64_t new_width) {
  std::vector<std::uint8_t> across(static_cast<std::size_t>(height * new_width));
  const std::vector<BoxSpan> columns = box_spans(width, new_width);
  std::uint8_t* to = across.data();
  for (std::int64_t y = 0; y < height; ++y) {
    const std::uint8_t* row = bytes.data() + y * width;
    for (const BoxSpan& span : columns) {
      std::int64_t sum = 0;
      for (std::int64_t x = span.first; x < span.last; ++x) {
        sum += row[x];
      }
      *to++ = rounded_mean(sum, span.last - span.first);
    }
  }
  std::vector<std::uint8_t> out(static_cast<std::size_t>(new_height * new_width));
  to = out.data();
  for (const BoxSpan& span : box_spans(height, new_height)) {
    for (std::int64_t x = 0; x < new_width; ++x) {
      std::int64_t sum = 0;
      for (std::int64_t y = span.first; y < span.last; ++y) {
        sum += across[static_cast<std::size_t>(y * new_width + x)];
      }
      *to++ = rounded_mean(sum, span.last - span.first);
    }
  }
  return out;
}

}  // namespace winnow::distortion
