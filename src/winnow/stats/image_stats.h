// What an image looks like in numbers (spec: audit 4): bytes in, values out.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace winnow {

// Planes of bytes, one after the other: channels x height x width.
struct ImageBytes {
  std::span<const std::uint8_t> bytes;
  std::int64_t channels = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

// The statistics that images are compared by, each brought to [0, 1] so that fixed bins serve all
// data sets.
enum class ImageStat {
  brightness,
  contrast,
  saturated,
  entropy,
  sharpness,
  noise,
  blockiness,
  colourfulness,
};
inline constexpr std::size_t kImageStats = 8;
std::string_view stat_name(ImageStat stat);

struct ImageStats {
  std::array<double, kImageStats> values{};
  // cleanlab's scores; low is bad.
  double dark_score = 1.0;
  double light_score = 1.0;
  double blurry_score = 1.0;
  double low_information_score = 1.0;
  std::uint64_t hash = 0;  // of differences between neighbours, on a grid of 9 x 8

  double at(ImageStat stat) const { return values[static_cast<std::size_t>(stat)]; }
};

ImageStats image_stats(const ImageBytes& image);

// Counts of a statistic in fixed bins: sums that clients may share.
class StatHistogram {
 public:
  static constexpr std::size_t kBins = 512;

  using Counts = std::array<std::int64_t, kBins>;

  StatHistogram() = default;
  explicit StatHistogram(const Counts& counts) : counts_(counts) {}

  void add(double value) { ++counts_[bin(value)]; }
  StatHistogram& operator+=(const StatHistogram& other);
  const Counts& counts() const { return counts_; }
  std::int64_t total() const;
  // Share of the samples below the value, those of its own bin by half.
  double rank(double value) const;
  // The mean rank of the samples of another histogram among those of this one.
  double mean_rank(const StatHistogram& others) const;
  // The value that this share of the samples lies below.
  double quantile(double share) const;
  // The values below this one have a rank of less than `share`, all others have not.
  double rare_below(double share) const;

 private:
  static std::size_t bin(double value);

  Counts counts_{};
};

// A number of any size, from 2^-16 to 2^16, brought to [0, 1] by its logarithm: 16 bins of a
// histogram for every factor of two. And back.
double on_log_scale(double value);
double from_log_scale(double scaled);

// Groups of near duplicates among samples: the hashes differ in at most 4 bits and `alike` agrees.
// Groups are sorted and in the order of their first member; a sample is in one group at most.
template <typename Alike>
std::vector<std::vector<std::size_t>> near_duplicates(std::span<const std::uint64_t> hashes,
                                                      const Alike& alike);

// The pairs that the above looks at: hashes that differ in at most `bits` bits, found by bands of
// equal bits. Of a band that more than 200 share only neighbours in the order are compared, so that
// blank images do not cost the square of their number.
std::vector<std::pair<std::size_t, std::size_t>> close_hashes(std::span<const std::uint64_t> hashes,
                                                              int bits);

// Groups of the pairs, joined.
std::vector<std::vector<std::size_t>> joined(
    std::size_t count, std::span<const std::pair<std::size_t, std::size_t>> pairs);

// Mean absolute difference of two images of one size, in levels of 255.
double mean_difference(const ImageBytes& one, const ImageBytes& other);

inline constexpr int kNearBits = 4;
inline constexpr double kNearLevels = 4.0;

template <typename Alike>
std::vector<std::vector<std::size_t>> near_duplicates(std::span<const std::uint64_t> hashes,
                                                      const Alike& alike) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (const auto& [one, other] : close_hashes(hashes, kNearBits)) {
    if (alike(one, other)) {
      pairs.emplace_back(one, other);
    }
  }
  return joined(hashes.size(), pairs);
}

}  // namespace winnow
