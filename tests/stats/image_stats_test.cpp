#include "winnow/stats/image_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "winnow/base/random.h"

namespace winnow::image_stats_test {

using ::testing::ElementsAre;

constexpr std::int64_t kSide = 16;

ImageStats stats_of(const std::vector<std::uint8_t>& pixels) {
  return image_stats({pixels, 1, kSide, kSide});
}

std::vector<std::uint8_t> flat(std::uint8_t level) {
  return std::vector<std::uint8_t>(kSide * kSide, level);
}

std::vector<std::uint8_t> slope(int noise) {
  Stream stream(1, "noise");
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < kSide * kSide; ++i) {
    const int shift =
        noise == 0 ? 0
                   : static_cast<int>(stream.below(2 * static_cast<std::uint64_t>(noise))) - noise;
    pixels.push_back(static_cast<std::uint8_t>(std::clamp(60 + 8 * (i % 16) + shift, 0, 255)));
  }
  return pixels;
}

TEST(ImageStats, ABlankImageHasNoInformationAndIsDarkOrLight) {
  const ImageStats black = stats_of(flat(0));
  EXPECT_EQ(black.dark_score, 0.0);
  EXPECT_EQ(black.low_information_score, 0.0);
  EXPECT_EQ(black.blurry_score, 0.0);
  EXPECT_EQ(black.at(ImageStat::saturated), 1.0);
  const ImageStats white = stats_of(flat(255));
  EXPECT_EQ(white.light_score, 0.0);
  EXPECT_EQ(white.at(ImageStat::brightness), 1.0);
}

TEST(ImageStats, NoiseShowsInWhatIsLeftOfASlope) {
  const ImageStats smooth = stats_of(slope(0));
  const ImageStats noisy = stats_of(slope(40));
  EXPECT_NEAR(smooth.at(ImageStat::noise), 0.0, 1e-9);
  EXPECT_GT(noisy.at(ImageStat::noise), 0.5);
  EXPECT_GT(noisy.at(ImageStat::sharpness), smooth.at(ImageStat::sharpness));
}

TEST(ImageStats, HistogramsAddUpAndKnowTheirQuantiles) {
  StatHistogram one;
  StatHistogram other;
  for (int i = 0; i < 100; ++i) {
    (i % 2 == 0 ? one : other).add((i + 0.5) / 100);
  }
  one += other;
  EXPECT_NEAR(one.rank(0.5), 0.5, 0.01);
  EXPECT_NEAR(one.quantile(0.25), 0.25, 0.01);
  EXPECT_NEAR(StatHistogram().rank(0.3), 0.5, 1e-12);
}

TEST(ImageStats, NearDuplicatesAreFoundWithinFourBits) {
  const std::vector<std::uint64_t> hashes{0xFFULL, 0xF0ULL, 0xFF00FF00ULL, 0x1FFULL, 0xFF00FF01ULL};
  const auto always = [](std::size_t, std::size_t) { return true; };
  EXPECT_THAT(near_duplicates(hashes, always),
              ElementsAre(ElementsAre(0U, 1U, 3U), ElementsAre(2U, 4U)));
  const auto never = [](std::size_t, std::size_t) { return false; };
  EXPECT_TRUE(near_duplicates(hashes, never).empty());
}

TEST(ImageStats, TheHashOfASlopeIsThatOfADarkerOne) {
  std::vector<std::uint8_t> darker = slope(0);
  for (std::uint8_t& pixel : darker) {
    pixel = static_cast<std::uint8_t>(pixel - 30);
  }
  EXPECT_EQ(stats_of(slope(0)).hash, stats_of(darker).hash);
  const std::vector<std::uint8_t> bright = slope(0);
  EXPECT_NEAR(mean_difference({bright, 1, kSide, kSide}, {darker, 1, kSide, kSide}), 30.0, 1e-9);
}

TEST(ImageStats, AHistogramAloneTellsTheMeanRankOfItsSamples) {
  StatHistogram all;
  StatHistogram few;
  Stream stream(3, "ranks");
  double sum = 0.0;
  std::vector<double> values;
  for (int i = 0; i < 300; ++i) {
    values.push_back(stream.uniform());
    all.add(values.back());
  }
  for (int i = 0; i < 40; ++i) {
    few.add(values[static_cast<std::size_t>(i)]);
    sum += all.rank(values[static_cast<std::size_t>(i)]);
  }
  EXPECT_NEAR(all.mean_rank(few), sum / 40, 1e-12);
  EXPECT_NEAR(all.mean_rank(all), 0.5, 1e-12);
  EXPECT_EQ(all.mean_rank(StatHistogram()), 0.5);
  EXPECT_EQ(StatHistogram(few.counts()).total(), 40);
}

TEST(ImageStats, FewValuesAreBelowTheBoundOfRareOnes) {
  StatHistogram all;
  for (int i = 0; i < 1000; ++i) {
    all.add((i + 0.5) / 1000);
  }
  const double bound = all.rare_below(0.01);
  for (int i = 0; i < 1000; ++i) {
    const double value = (i + 0.5) / 1000;
    EXPECT_EQ(value < bound, all.rank(value) < 0.01) << value;
  }
  EXPECT_EQ(StatHistogram().rare_below(0.01), 0.0) << "of nothing nothing is rare";
}

TEST(ImageStats, NumbersOfAnySizeFitTheLogScaleAndComeBack) {
  EXPECT_EQ(on_log_scale(0.0), 0.0);
  EXPECT_EQ(on_log_scale(1e30), 1.0);
  EXPECT_NEAR(on_log_scale(1.0), 0.5, 1e-12);
  EXPECT_NEAR(from_log_scale(on_log_scale(37.5)), 37.5, 1e-9);
}

}  // namespace winnow::image_stats_test
