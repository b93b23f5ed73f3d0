#include "winnow/noise/image/distortion_noise.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "winnow/base/math.h"

namespace winnow::distortion {
namespace {

double normal_below(double z) {
  return 0.5 * math::erfc(-z / std::numbers::sqrt2);
}

// Truncation of N(mean, spread^2) levels, clipped to 0..255.
ByteDistribution truncated_levels(double mean, double spread) {
  ByteDistribution distribution{};
  double below = 0.0;
  for (std::size_t value = 0; value < 255; ++value) {
    const double next = normal_below((static_cast<double>(value + 1) - mean) / spread);
    distribution[value] = next - below;
    below = next;
  }
  distribution[255] = 1.0 - below;
  return distribution;
}

ByteDistribution certain(int level) {
  ByteDistribution distribution{};
  distribution[static_cast<std::size_t>(level)] = 1.0;
  return distribution;
}

using RowFunction = ByteDistribution (*)(int level, int severity);

PerSeverity<ByteNoise> all_severities(RowFunction row) {
  const auto noise = [row](int severity) {
    return ByteNoise([row, severity](int level) { return row(level, severity); });
  };
  return {noise(1), noise(2), noise(3), noise(4), noise(5)};
}

}  // namespace

ByteDistribution gaussian_noise_of(int level, int severity) {
  constexpr PerSeverity<double> kSpread{.04, .06, .08, .09, .10};
  return truncated_levels(level, 255.0 * at_severity(kSpread, severity));
}

ByteDistribution shot_noise_of(int level, int severity) {
  constexpr PerSeverity<int> kPhotons{500, 250, 100, 75, 50};
  const int photons = at_severity(kPhotons, severity);
  const double mean = photons * (level / 255.0);
  const int last = static_cast<int>(mean + 12.0 * std::sqrt(mean) + 20.0);
  ByteDistribution distribution{};
  double probability = math::exp(-mean);
  for (int count = 0; count <= last; ++count) {
    distribution[static_cast<std::size_t>(std::min(255, 255 * count / photons))] += probability;
    probability *= mean / (count + 1);
  }
  return distribution;
}

ByteDistribution impulse_noise_of(int level, int severity) {
  constexpr PerSeverity<double> kShare{.01, .02, .03, .05, .07};
  const double share = at_severity(kShare, severity);
  ByteDistribution distribution{};
  distribution[static_cast<std::size_t>(level)] = 1.0 - share;
  distribution[0] += share / 2.0;
  distribution[255] += share / 2.0;
  return distribution;
}

ByteDistribution speckle_noise_of(int level, int severity) {
  constexpr PerSeverity<double> kSpread{.06, .10, .12, .16, .20};
  return level == 0 ? certain(0) : truncated_levels(level, level * at_severity(kSpread, severity));
}

ByteDistribution gaussian_patch_distribution() {
  return truncated_levels(0.0, 255.0);
}

AliasRow::AliasRow(const ByteDistribution& distribution) : cells_{} {
  // Vose's construction: every slot short of its 1/256 is filled up from one that has too much.
  std::array<double, 256> left{};
  double total = 0.0;
  for (const double probability : distribution) {
    total += probability;
  }
  std::vector<std::size_t> small;
  std::vector<std::size_t> large;
  for (std::size_t i = 0; i < 256; ++i) {
    left[i] = distribution[i] / total * 256.0;
    (left[i] < 1.0 ? small : large).push_back(i);
    cells_[i] = static_cast<std::uint32_t>(i);  // its own partner, unless paired below
  }
  while (!small.empty() && !large.empty()) {
    const std::size_t poor = small.back();
    const std::size_t rich = large.back();
    small.pop_back();
    const auto threshold = static_cast<std::uint32_t>(std::lround(left[poor] * 0x1.0p24));
    cells_[poor] = (std::min(threshold, 0xFFFFFFU) << 8) | static_cast<std::uint32_t>(rich);
    left[rich] -= 1.0 - left[poor];
    if (left[rich] < 1.0) {
      large.pop_back();
      small.push_back(rich);
    }
  }
}

ByteNoise::ByteNoise(const std::function<ByteDistribution(int level)>& distribution_of) {
  rows_.reserve(256);
  for (int level = 0; level < 256; ++level) {
    rows_.emplace_back(distribution_of(level));
  }
}

void ByteNoise::apply(const ImageView& image, Stream& stream) const {
  for (std::int64_t i = 0; i < image.size(); ++i) {
    image.data[i] = rows_[image.data[i]].draw(stream.next_u32());
  }
}

void gaussian_noise(const ImageView& image, int severity, Stream& stream) {
  static const auto noise = all_severities(gaussian_noise_of);
  at_severity(noise, severity).apply(image, stream);
}

void shot_noise(const ImageView& image, int severity, Stream& stream) {
  static const auto noise = all_severities(shot_noise_of);
  at_severity(noise, severity).apply(image, stream);
}

void impulse_noise(const ImageView& image, int severity, Stream& stream) {
  static const auto noise = all_severities(impulse_noise_of);
  at_severity(noise, severity).apply(image, stream);
}

void speckle_noise(const ImageView& image, int severity, Stream& stream) {
  static const auto noise = all_severities(speckle_noise_of);
  at_severity(noise, severity).apply(image, stream);
}

void black(const ImageView& image) {
  std::fill_n(image.data, image.size(), std::uint8_t{0});
}

void gaussian_patch(const ImageView& image, Stream& stream) {
  static const AliasRow row(gaussian_patch_distribution());
  std::generate_n(image.data, image.size(), [&stream] { return row.draw(stream.next_u32()); });
}

}  // namespace winnow::distortion
