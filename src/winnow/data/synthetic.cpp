#include "winnow/data/synthetic.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "winnow/base/math.h"
#include "winnow/base/random.h"

namespace winnow {
namespace {

constexpr std::int64_t kPatterns = 3;  // per class
constexpr int kWaves = 6;              // per pattern
constexpr double kMostCycles = 2.0;    // across the image: smooth enough to bear a shift
constexpr double kAmplitude = 50.0;    // grey levels per deviation of a pattern
constexpr double kLeastNoise = 8.0;    // grey levels
constexpr double kNoisePerDifficulty = 60.0;
constexpr double kMixPerDifficulty = 0.75;  // the largest share of the other class

// How far a sample may be shifted; patterns are drawn this much wider on each side.
std::int64_t margin_of(const SyntheticOptions& options) {
  return std::max<std::int64_t>(1, options.size / 14);
}

// Quantiles of the standard normal at the middles of equal shares: a draw of a normal value is then
// one look-up, which is what lets 60,000 images be made in a second.
class NormalTable {
 public:
  static constexpr std::size_t kSize = 4096;

  NormalTable() {
    for (std::size_t i = 0; i < kSize / 2; ++i) {
      const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(kSize);
      values_[i] = static_cast<float>(quantile(share));
      values_[kSize - 1 - i] = -values_[i];
    }
  }

  void fill(Stream& stream, std::span<float> out) const {
    for (std::size_t i = 0; i + 1 < out.size(); i += 2) {
      const std::uint32_t bits = stream.next_u32();
      out[i] = values_[bits & (kSize - 1)];
      out[i + 1] = values_[bits >> 20];
    }
    if (out.size() % 2 == 1) {
      out.back() = values_[stream.next_u32() & (kSize - 1)];
    }
  }

 private:
  static double quantile(double share) {
    double low = -8.0;
    double high = 0.0;
    for (int step = 0; step < 50; ++step) {
      const double middle = 0.5 * (low + high);
      (0.5 * math::erfc(-middle / std::numbers::sqrt2) < share ? low : high) = middle;
    }
    return 0.5 * (low + high);
  }

  std::array<float, kSize> values_{};
};

// Adds one wave, with its own strength and phase in each channel.
void add_wave(Stream& stream, const SyntheticOptions& options, at::Tensor& pattern) {
  const double cycles = 2.0 * std::numbers::pi / static_cast<double>(options.size);
  const double across = cycles * stream.uniform(-kMostCycles, kMostCycles);
  const double down = cycles * stream.uniform(-kMostCycles, kMostCycles);
  auto values = pattern.accessor<float, 3>();
  for (std::int64_t channel = 0; channel < pattern.size(0); ++channel) {
    const double strength = stream.normal();
    const double phase = stream.uniform(0.0, 2.0 * std::numbers::pi);
    for (std::int64_t y = 0; y < pattern.size(1); ++y) {
      for (std::int64_t x = 0; x < pattern.size(2); ++x) {
        const double angle = across * static_cast<double>(x) + down * static_cast<double>(y);
        values[channel][y][x] += static_cast<float>(strength * math::cos(angle + phase));
      }
    }
  }
}

at::Tensor inner(const at::Tensor& wide, const SyntheticOptions& options) {
  const std::int64_t margin = margin_of(options);
  return wide.narrow(-1, margin, options.size).narrow(-2, margin, options.size);
}

// float [classes, patterns, channels, size + 2 margin, size + 2 margin]; mean 0 and deviation 1
// over the inner part.
at::Tensor wide_patterns(const SyntheticOptions& options) {
  const std::int64_t side = options.size + 2 * margin_of(options);
  at::Tensor all =
      at::zeros({options.classes, kPatterns, options.channels, side, side}, at::kFloat);
  for (std::int64_t label = 0; label < options.classes; ++label) {
    for (std::int64_t which = 0; which < kPatterns; ++which) {
      Stream stream(options.seed, "synthetic pattern", label, which);
      at::Tensor pattern = all[label][which];
      for (int wave = 0; wave < kWaves; ++wave) {
        add_wave(stream, options, pattern);
      }
      const at::Tensor seen = inner(pattern, options);
      const auto mean = seen.mean().item<double>();
      pattern.sub_(mean).div_(seen.std().item<double>() + 1e-6);
    }
  }
  return all;
}

// Makes one sample after another from shared patterns.
class Painter {
 public:
  explicit Painter(const SyntheticOptions& options)
      : options_(options),
        patterns_(wide_patterns(options)),
        side_(options.size + 2 * margin_of(options)),
        noise_(static_cast<std::size_t>(options.channels * options.size * options.size)) {}

  void paint(Stream& stream, std::int64_t label, std::uint8_t* image) {
    const std::int64_t other = (label + 1 + below(stream, options_.classes - 1)) % options_.classes;
    const float* own = shifted(stream, label);
    const float* strange = shifted(stream, other);
    const double contrast = kAmplitude * stream.uniform(0.7, 1.3);
    const double mix = stream.uniform(0.0, kMixPerDifficulty * options_.difficulty);
    const auto own_share = static_cast<float>(contrast * (1.0 - mix));
    const auto strange_share = static_cast<float>(contrast * mix);
    const auto deviation =
        static_cast<float>(kLeastNoise + kNoisePerDifficulty * options_.difficulty);
    normal_.fill(stream, noise_);
    const float* noise = noise_.data();
    for (std::int64_t channel = 0; channel < options_.channels; ++channel) {
      for (std::int64_t y = 0; y < options_.size; ++y) {
        const std::int64_t row = (channel * side_ + y) * side_;
        for (std::int64_t x = 0; x < options_.size; ++x) {
          const float value = 128.0F + own_share * own[row + x] + strange_share * strange[row + x] +
                              deviation * *noise++;
          *image++ = static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
        }
      }
    }
  }

 private:
  static std::int64_t below(Stream& stream, std::int64_t bound) {
    return bound > 0 ? static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(bound)))
                     : 0;
  }

  // The first value of a random pattern of the class at a random shift.
  const float* shifted(Stream& stream, std::int64_t label) const {
    const std::int64_t which = below(stream, kPatterns);
    const std::int64_t shifts = 2 * margin_of(options_) + 1;
    const std::int64_t y = below(stream, shifts);
    const std::int64_t x = below(stream, shifts);
    const std::int64_t pattern = (label * kPatterns + which) * options_.channels * side_ * side_;
    return patterns_.data_ptr<float>() + pattern + y * side_ + x;
  }

  SyntheticOptions options_;
  at::Tensor patterns_;
  std::int64_t side_;
  NormalTable normal_;
  std::vector<float> noise_;
};

at::Tensor room_for(std::int64_t count, const SyntheticOptions& options) {
  return at::empty({count, options.channels, options.size, options.size}, at::kByte);
}

// `part`: 0 for training, 1 for testing.
void paint_part(Painter& painter, const SyntheticOptions& options, std::int64_t part,
                Samples& samples) {
  const std::int64_t stride = options.channels * options.size * options.size;
  for (std::int64_t i = 0; i < samples.images.size(0); ++i) {
    Stream stream(options.seed, "synthetic sample", part, i);
    samples.labels.push_back(i % options.classes);
    painter.paint(stream, samples.labels.back(),
                  samples.images.data_ptr<std::uint8_t>() + i * stride);
  }
}

}  // namespace

DataSet make_synthetic(const SyntheticOptions& options) {
  DataSet set;
  set.train.images = room_for(options.samples, options);  // first: too many are refused at once
  set.test.images = room_for(options.test_samples, options);
  Painter painter(options);
  paint_part(painter, options, 0, set.train);
  paint_part(painter, options, 1, set.test);
  set.classes = options.classes;
  for (std::int64_t i = 0; i < options.classes; ++i) {
    set.class_names.push_back("pattern " + std::to_string(i));
  }
  return set;
}

at::Tensor synthetic_patterns(const SyntheticOptions& options) {
  return inner(wide_patterns(options), options).contiguous();
}

}  // namespace winnow
