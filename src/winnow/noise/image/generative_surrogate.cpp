#include "winnow/noise/image/generative_surrogate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/noise/image/filter_resize.h"

namespace winnow {
namespace {

using distortion::Plane;

std::vector<float> normals(std::int64_t count, double scale, Stream& stream) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = static_cast<float>(scale * stream.normal());
  }
  return values;
}

// The activation: a leaky rectifier with gain.
float phi(float value) {
  return std::numbers::sqrt2_v<float> * (value > 0.0F ? value : 0.2F * value);
}

std::vector<float> product(const std::vector<float>& matrix, const std::vector<float>& vector) {
  std::vector<float> out(matrix.size() / vector.size());
  const float* row = matrix.data();
  for (float& sum : out) {
    for (const float value : vector) {
      sum += *row++ * value;
    }
  }
  return out;
}

// One axis of a x2 bilinear enlargement with half-pixel centres: .75 of the near neighbour and .25
// of the other, clamped at the edge.
std::int64_t other_neighbour(std::int64_t i, std::int64_t side) {
  return std::clamp<std::int64_t>(i / 2 + (i % 2 == 0 ? -1 : 1), 0, side - 1);
}

std::vector<float> enlarged(const std::vector<float>& values, std::int64_t side,
                            std::int64_t channels) {
  const std::int64_t big = 2 * side;
  std::vector<float> out(static_cast<std::size_t>(big * big * channels));
  float* to = out.data();
  for (std::int64_t y = 0; y < big; ++y) {
    const float* near = values.data() + y / 2 * side * channels;
    const float* far = values.data() + other_neighbour(y, side) * side * channels;
    for (std::int64_t x = 0; x < big; ++x, to += channels) {
      const std::int64_t here = x / 2 * channels;
      const std::int64_t beside = other_neighbour(x, side) * channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        to[c] = 0.5625F * near[here + c] + 0.1875F * (near[beside + c] + far[here + c]) +
                0.0625F * far[beside + c];
      }
    }
  }
  return out;
}

// Each input channel times its gain, with a margin of one repeated pixel.
std::vector<float> modulated(const std::vector<float>& values, std::int64_t side,
                             const std::vector<float>& gains) {
  const auto channels = std::ssize(gains);
  std::vector<float> out(static_cast<std::size_t>((side + 2) * (side + 2) * channels));
  float* to = out.data();
  for (std::int64_t y = -1; y <= side; ++y) {
    for (std::int64_t x = -1; x <= side; ++x, to += channels) {
      const float* from = values.data() + (std::clamp<std::int64_t>(y, 0, side - 1) * side +
                                           std::clamp<std::int64_t>(x, 0, side - 1)) *
                                              channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        to[c] = from[c] * gains[static_cast<std::size_t>(c)];
      }
    }
  }
  return out;
}

// All output channels of one pixel: the 3x3 neighbourhood times the kernel. The hot loop of the
// generator; the sums stay in registers.
template <std::int64_t kWidth>
void convolve_pixel(const float* corner, std::int64_t stride, const float* kernel, float* out) {
  std::array<float, static_cast<std::size_t>(kWidth)> sums{};
  for (std::int64_t ky = 0; ky < 3; ++ky) {
    const float* in = corner + ky * stride;
    for (std::int64_t i = 0; i < 3 * kWidth; ++i, kernel += kWidth) {
      const float value = in[i];
      for (std::int64_t o = 0; o < kWidth; ++o) {
        sums[static_cast<std::size_t>(o)] += value * kernel[o];
      }
    }
  }
  std::copy(sums.begin(), sums.end(), out);
}

// Zero mean and unit spread, then around the middle grey. A flat picture becomes middle grey.
void normalise_brightness(Plane& plane) {
  double sum = 0.0;
  double squares = 0.0;
  for (const float value : plane.values) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto count = static_cast<double>(plane.area());
  const double mean = sum / count;
  const double spread = std::sqrt(std::max(squares / count - mean * mean, 0.0));
  const double scale = spread > 0.0 ? 1.0 / spread : 0.0;
  for (float& value : plane.values) {
    const double level = 127.5 + 63.75 * (static_cast<double>(value) - mean) * scale;
    value = static_cast<float>(level / 255.0);
  }
}

}  // namespace

GenMode parse_gen_mode(std::string_view text) {
  if (text == "per_sample") {
    return GenMode::per_sample;
  }
  if (text == "fixed") {
    return GenMode::fixed;
  }
  const std::array<std::string, 2> known{"per_sample", "fixed"};
  throw Error(ErrorKind::experiment, fmt::format("gen_mode '{}' is not known", text),
              suggestion(text, known));
}

GenerativeSurrogate::GenerativeSurrogate(std::uint64_t seed) : seed_(seed) {
  Stream stream(seed, "generative_surrogate");
  start_ = normals(4 * 4 * kChannels, 1.0, stream);
  for (std::vector<float>& matrix : mapping_) {
    matrix = normals(kStyle * kStyle, 1.0 / 8.0, stream);
  }
  for (Stage& stage : stages_) {
    stage.style = normals(kChannels * kStyle, 1.0 / 8.0, stream);
    stage.kernel = normals(9 * kChannels * kChannels,
                           std::sqrt(1.0 / static_cast<double>(9 * kChannels)), stream);
    stage.energy.resize(static_cast<std::size_t>(kChannels * kChannels));
    for (std::size_t i = 0; i < stage.kernel.size(); ++i) {
      const std::size_t out = i % kChannels;
      const std::size_t in = i / kChannels % kChannels;
      stage.energy[out * kChannels + in] += stage.kernel[i] * stage.kernel[i];
    }
  }
  colour_ = normals(3 * kChannels, 1.0 / std::sqrt(static_cast<double>(kChannels)), stream);
}

std::vector<float> GenerativeSurrogate::draw_style(Stream& stream) const {
  std::vector<float> style = normals(kStyle, 1.0, stream);
  double squares = 0.0;
  for (const float value : style) {
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto scale = static_cast<float>(1.0 / std::sqrt(squares / kStyle));
  for (float& value : style) {
    value *= scale;
  }
  for (const std::vector<float>& matrix : mapping_) {
    style = product(matrix, style);
    std::transform(style.begin(), style.end(), style.begin(), phi);
  }
  return style;
}

GenerativeSurrogate::Features GenerativeSurrogate::run_stage(const Stage& stage, Features features,
                                                             const std::vector<float>& style,
                                                             Stream& stream) const {
  std::vector<float> gains = product(stage.style, style);
  std::vector<float> squares(gains.size());
  for (std::size_t c = 0; c < gains.size(); ++c) {
    gains[c] += 1.0F;
    squares[c] = gains[c] * gains[c];
  }
  std::vector<float> norms = product(stage.energy, squares);
  for (float& norm : norms) {
    norm = 1.0F / std::sqrt(norm + 1e-8F);
  }
  // Scaling the input channels instead of the weights gives the same sums with shared weights.
  const std::int64_t side = features.side;
  const std::vector<float> in = modulated(features.values, side, gains);
  const std::int64_t stride = (side + 2) * kChannels;
  float* out = features.values.data();
  for (std::int64_t y = 0; y < side; ++y) {
    for (std::int64_t x = 0; x < side; ++x, out += kChannels) {
      convolve_pixel<kChannels>(in.data() + y * stride + x * kChannels, stride, stage.kernel.data(),
                                out);
      const auto noise = static_cast<float>(0.3 * stream.normal());
      for (std::int64_t c = 0; c < kChannels; ++c) {
        out[c] = phi(out[c] * norms[static_cast<std::size_t>(c)] + noise);
      }
    }
  }
  return features;
}

std::vector<Plane> GenerativeSurrogate::colours(const Features& features,
                                                std::int64_t count) const {
  std::vector<Plane> planes;
  for (std::int64_t c = 0; c < count; ++c) {
    Plane plane(features.side, features.side);
    const float* weights = colour_.data() + c * kChannels;
    const float* pixel = features.values.data();
    for (float& value : plane.values) {
      for (std::int64_t i = 0; i < kChannels; ++i) {
        value += weights[i] * pixel[i];
      }
      pixel += kChannels;
    }
    planes.push_back(std::move(plane));
  }
  return planes;
}

void GenerativeSurrogate::paint(const ImageView& image, Stream& stream) const {
  const std::vector<float> style = draw_style(stream);
  Features features{4, start_};
  for (std::size_t s = 0; s < kStages; ++s) {
    if (s > 0) {
      features = {2 * features.side, enlarged(features.values, features.side, kChannels)};
    }
    features = run_stage(stages_[s], std::move(features), style, stream);
  }
  std::int64_t channel = 0;
  for (Plane& plane : colours(features, image.channels)) {
    if (plane.height != image.height || plane.width != image.width) {
      plane = distortion::resize_bilinear(plane, image.height, image.width);
    }
    normalise_brightness(plane);
    distortion::store_plane(plane, image, channel++);
  }
}

void GenerativeSurrogate::paint_fixed(const ImageView& image) const {
  Stream stream(seed_, "generative_surrogate_fixed");
  paint(image, stream);
}

}  // namespace winnow
