#include "winnow/stats/image_stats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "winnow/base/math.h"

namespace winnow {
namespace {

constexpr double kHalfScale = 16.0;  // octaves on either side of 1

constexpr std::array<std::string_view, kImageStats> kStatNames{
    "brightness", "contrast", "saturated",  "entropy",
    "sharpness",  "noise",    "blockiness", "colourfulness"};

// Luma of every pixel, 0 to 255.
std::vector<double> luma_of(const ImageBytes& image) {
  const auto pixels = static_cast<std::size_t>(image.height * image.width);
  std::vector<double> luma(pixels, 0.0);
  constexpr std::array<double, 3> kWeights{0.299, 0.587, 0.114};
  const auto channels = static_cast<std::size_t>(image.channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const double weight = channels == 3 ? kWeights[c] : 1.0 / static_cast<double>(channels);
    for (std::size_t i = 0; i < pixels; ++i) {
      luma[i] += weight * static_cast<double>(image.bytes[c * pixels + i]);
    }
  }
  return luma;
}

double percentile(std::vector<double> values, double share) {
  const auto at =
      static_cast<std::ptrdiff_t>(std::lround(share * static_cast<double>(values.size() - 1)));
  std::ranges::nth_element(values, values.begin() + at);
  return values[static_cast<std::size_t>(at)];
}

// In bits, of the 256 levels.
double entropy_of(const std::vector<double>& luma) {
  std::array<double, 256> counts{};
  for (const double value : luma) {
    counts[static_cast<std::size_t>(std::clamp(value, 0.0, 255.0))] += 1.0;
  }
  double entropy = 0.0;
  for (const double count : counts) {
    if (count > 0.0) {
      const double share = count / static_cast<double>(luma.size());
      entropy -= share * math::log(share) / math::log(2.0);
    }
  }
  return entropy;
}

// x / (x + half): any non-negative number into [0, 1), one half at `half`.
double squash(double value, double half) {
  return value / (value + half);
}

// Second differences over all pixels that have four neighbours.
std::vector<double> laplacian(const std::vector<double>& luma, std::int64_t height,
                              std::int64_t width) {
  std::vector<double> values;
  for (std::int64_t y = 1; y + 1 < height; ++y) {
    for (std::int64_t x = 1; x + 1 < width; ++x) {
      const auto at = static_cast<std::size_t>(y * width + x);
      const auto row = static_cast<std::size_t>(width);
      values.push_back(luma[at - 1] + luma[at + 1] + luma[at - row] + luma[at + row] -
                       4.0 * luma[at]);
    }
  }
  return values;
}

double variance_of(const std::vector<double>& values) {
  if (values.empty()) {
    return 0.0;
  }
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double sum = 0.0;
  for (const double value : values) {
    sum += (value - mean) * (value - mean);
  }
  return sum / count;
}

// How much larger steps between pixels are at the borders of 8 x 8 blocks than elsewhere.
double blockiness_of(const std::vector<double>& luma, std::int64_t height, std::int64_t width) {
  double border = 0.0;
  double inside = 0.0;
  std::int64_t borders = 0;
  std::int64_t insides = 0;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 1; x < width; ++x) {
      const auto at = static_cast<std::size_t>(y * width + x);
      const double step = std::abs(luma[at] - luma[at - 1]);
      (x % 8 == 0 ? border : inside) += step;
      ++(x % 8 == 0 ? borders : insides);
    }
  }
  if (borders == 0 || insides == 0 || inside == 0.0) {
    return 0.5;
  }
  return squash(border / static_cast<double>(borders), inside / static_cast<double>(insides));
}

// Mean distance of the channels from their grey.
double colourfulness_of(const ImageBytes& image, const std::vector<double>& luma) {
  if (image.channels < 2) {
    return 0.0;
  }
  double sum = 0.0;
  for (std::size_t i = 0; i < image.bytes.size(); ++i) {
    sum += std::abs(static_cast<double>(image.bytes[i]) - luma[i % luma.size()]);
  }
  return squash(sum / static_cast<double>(image.bytes.size()), 20.0);
}

std::uint64_t difference_hash(const std::vector<double>& luma, std::int64_t height,
                              std::int64_t width) {
  constexpr std::int64_t kRows = 8;
  constexpr std::int64_t kColumns = 9;
  std::array<double, static_cast<std::size_t>(kRows * kColumns)> grid{};
  for (std::int64_t y = 0; y < kRows; ++y) {
    for (std::int64_t x = 0; x < kColumns; ++x) {
      const std::int64_t top = y * height / kRows;
      const std::int64_t left = x * width / kColumns;
      const std::int64_t bottom = std::max(top + 1, (y + 1) * height / kRows);
      const std::int64_t right = std::max(left + 1, (x + 1) * width / kColumns);
      double sum = 0.0;
      for (std::int64_t v = top; v < bottom; ++v) {
        for (std::int64_t u = left; u < right; ++u) {
          sum += luma[static_cast<std::size_t>(std::min(v, height - 1) * width +
                                               std::min(u, width - 1))];
        }
      }
      grid[static_cast<std::size_t>(y * kColumns + x)] =
          sum / static_cast<double>((bottom - top) * (right - left));
    }
  }
  std::uint64_t hash = 0;
  for (std::int64_t y = 0; y < kRows; ++y) {
    for (std::int64_t x = 0; x + 1 < kColumns; ++x) {
      const auto at = static_cast<std::size_t>(y * kColumns + x);
      hash = hash << 1U | (grid[at] < grid[at + 1] ? 1U : 0U);
    }
  }
  return hash;
}

}  // namespace

std::string_view stat_name(ImageStat stat) {
  return kStatNames[static_cast<std::size_t>(stat)];
}

ImageStats image_stats(const ImageBytes& image) {
  ImageStats stats;
  const std::vector<double> luma = luma_of(image);
  if (luma.empty()) {
    return stats;
  }
  const auto count = static_cast<double>(luma.size());
  const double mean = std::accumulate(luma.begin(), luma.end(), 0.0) / count;
  const double deviation = std::sqrt(variance_of(luma));
  const auto full = std::ranges::count_if(luma, [](double v) { return v <= 2.0 || v >= 253.0; });
  const double entropy = entropy_of(luma);
  const std::vector<double> edges = laplacian(luma, image.height, image.width);
  const double edge_variance = variance_of(edges);
  std::vector<double> absolute = edges;
  std::ranges::for_each(absolute, [](double& value) { value = std::abs(value); });
  const double high_pass = absolute.empty() ? 0.0 : percentile(absolute, 0.5);
  const auto set = [&](ImageStat stat, double value) {
    stats.values[static_cast<std::size_t>(stat)] = std::clamp(value, 0.0, 1.0);
  };
  set(ImageStat::brightness, mean / 255.0);
  set(ImageStat::contrast, deviation / 128.0);
  set(ImageStat::saturated, static_cast<double>(full) / count);
  set(ImageStat::entropy, entropy / 8.0);
  set(ImageStat::sharpness, squash(std::sqrt(edge_variance), 50.0));
  set(ImageStat::noise, squash(high_pass, 20.0));
  set(ImageStat::blockiness, blockiness_of(luma, image.height, image.width));
  set(ImageStat::colourfulness, colourfulness_of(image, luma));
  stats.dark_score = percentile(luma, 0.99) / 255.0;
  stats.light_score = 1.0 - percentile(luma, 0.05) / 255.0;
  stats.low_information_score = std::min(1.0, entropy * 0.1);
  stats.blurry_score = 1.0 - math::exp(-edge_variance * 0.01);
  stats.hash = difference_hash(luma, image.height, image.width);
  return stats;
}

StatHistogram& StatHistogram::operator+=(const StatHistogram& other) {
  std::ranges::transform(counts_, other.counts_, counts_.begin(), std::plus<>());
  return *this;
}

std::size_t StatHistogram::bin(double value) {
  return std::min(kBins - 1, static_cast<std::size_t>(std::clamp(value, 0.0, 1.0) *
                                                      static_cast<double>(kBins)));
}

std::int64_t StatHistogram::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
}

double StatHistogram::rank(double value) const {
  const auto all = static_cast<double>(total());
  const std::size_t own = bin(value);
  const auto below = static_cast<double>(std::accumulate(
      counts_.begin(), counts_.begin() + static_cast<std::ptrdiff_t>(own), std::int64_t{0}));
  return all == 0.0 ? 0.5 : (below + 0.5 * static_cast<double>(counts_[own])) / all;
}

double StatHistogram::mean_rank(const StatHistogram& others) const {
  const auto all = static_cast<double>(total());
  const auto members = static_cast<double>(others.total());
  if (all == 0.0 || members == 0.0) {
    return 0.5;
  }
  double below = 0.0;
  double sum = 0.0;
  for (std::size_t b = 0; b < kBins; ++b) {
    const auto here = static_cast<double>(counts_[b]);
    sum += static_cast<double>(others.counts_[b]) * (below + 0.5 * here);
    below += here;
  }
  return sum / all / members;
}

double StatHistogram::quantile(double share) const {
  const auto all =
      static_cast<double>(std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0}));
  double seen = 0.0;
  for (std::size_t b = 0; b < kBins; ++b) {
    seen += static_cast<double>(counts_[b]);
    if (seen > share * all) {
      return static_cast<double>(b) / static_cast<double>(kBins);
    }
  }
  return 1.0;
}

double StatHistogram::rare_below(double share) const {
  const auto all = static_cast<double>(total());
  double below = 0.0;
  for (std::size_t b = 0; b < kBins; ++b) {
    const auto here = static_cast<double>(counts_[b]);
    if (below + 0.5 * here >= share * all) {
      return static_cast<double>(b) / static_cast<double>(kBins);
    }
    below += here;
  }
  return 1.0;
}

double on_log_scale(double value) {
  const double octaves = math::log(std::max(value, 1e-300)) / math::log(2.0);
  return std::clamp((octaves + kHalfScale) / (2.0 * kHalfScale), 0.0, 1.0);
}

double from_log_scale(double scaled) {
  return math::pow(2.0, 2.0 * kHalfScale * scaled - kHalfScale);
}

std::vector<std::pair<std::size_t, std::size_t>> close_hashes(std::span<const std::uint64_t> hashes,
                                                              int bits) {
  // Of bits + 1 bands at least one is equal where at most `bits` bits differ.
  constexpr std::size_t kCrowd = 200;
  const int bands = bits + 1;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (int band = 0; band < bands; ++band) {
    const int first = 64 * band / bands;
    const int size = 64 * (band + 1) / bands - first;
    const std::uint64_t mask = size == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << size) - 1;
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> buckets;
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      buckets[hashes[i] >> first & mask].push_back(i);
    }
    for (const auto& [key, members] : buckets) {
      for (std::size_t a = 0; a < members.size(); ++a) {
        const std::size_t end =
            members.size() > kCrowd ? std::min(members.size(), a + 2) : members.size();
        for (std::size_t b = a + 1; b < end; ++b) {
          if (std::popcount(hashes[members[a]] ^ hashes[members[b]]) <= bits) {
            pairs.emplace_back(members[a], members[b]);
          }
        }
      }
    }
  }
  std::ranges::sort(pairs);
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

std::vector<std::vector<std::size_t>> joined(
    std::size_t count, std::span<const std::pair<std::size_t, std::size_t>> pairs) {
  std::vector<std::size_t> head(count);
  std::iota(head.begin(), head.end(), std::size_t{0});
  const auto find = [&](std::size_t at) {
    while (head[at] != at) {
      head[at] = head[head[at]];
      at = head[at];
    }
    return at;
  };
  for (const auto& [one, other] : pairs) {
    const std::size_t a = find(one);
    const std::size_t b = find(other);
    head[std::max(a, b)] = std::min(a, b);
  }
  std::vector<std::vector<std::size_t>> members(count);
  for (std::size_t i = 0; i < count; ++i) {
    members[find(i)].push_back(i);
  }
  std::erase_if(members, [](const auto& group) { return group.size() < 2; });
  return members;
}

double mean_difference(const ImageBytes& one, const ImageBytes& other) {
  if (one.bytes.size() != other.bytes.size() || one.bytes.empty()) {
    return 255.0;
  }
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < one.bytes.size(); ++i) {
    sum += std::abs(static_cast<int>(one.bytes[i]) - static_cast<int>(other.bytes[i]));
  }
  return static_cast<double>(sum) / static_cast<double>(one.bytes.size());
}

}  // namespace winnow
