#include "winnow/noise/image/distortion_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "noise/image/distortion_pictures.h"

namespace winnow::distortion::distortion_noise_test {

using testing_pictures::flat;
using testing_pictures::Picture;

double mean_of(const ByteDistribution& distribution) {
  double mean = 0.0;
  for (std::size_t value = 0; value < 256; ++value) {
    mean += distribution[value] * static_cast<double>(value);
  }
  return mean;
}

double spread_of(const ByteDistribution& distribution) {
  const double mean = mean_of(distribution);
  double sum = 0.0;
  for (std::size_t value = 0; value < 256; ++value) {
    sum += distribution[value] * std::pow(static_cast<double>(value) - mean, 2);
  }
  return std::sqrt(sum);
}

using RowFunction = ByteDistribution (*)(int level, int severity);

TEST(ByteNoise, EveryRowIsADistribution) {
  for (const RowFunction row :
       {gaussian_noise_of, shot_noise_of, impulse_noise_of, speckle_noise_of}) {
    for (int severity = 1; severity <= 5; ++severity) {
      for (int level = 0; level < 256; ++level) {
        const ByteDistribution distribution = row(level, severity);
        double sum = 0.0;
        for (const double probability : distribution) {
          ASSERT_GE(probability, 0.0);
          sum += probability;
        }
        ASSERT_NEAR(sum, 1.0, 1e-9) << "level " << level << " severity " << severity;
      }
    }
  }
}

// Truncation moves a continuous value down by half a level on average.
// spec: input-noise D1
TEST(GaussianNoise, HasTheListedSpread) {
  constexpr PerSeverity<double> kSpread{.04, .06, .08, .09, .10};
  for (int severity = 1; severity <= 5; ++severity) {
    const ByteDistribution middle = gaussian_noise_of(128, severity);
    EXPECT_NEAR(spread_of(middle), 255.0 * at_severity(kSpread, severity), 0.05) << severity;
    EXPECT_NEAR(mean_of(middle), 127.5, 0.01) << severity;
  }
}

// spec: input-noise D2: std at x = .5 is .0316 at severity 1 and .1 at 5
TEST(ShotNoise, HasTheListedSpread) {
  constexpr PerSeverity<double> kPhotons{500, 250, 100, 75, 50};
  for (int severity = 1; severity <= 5; ++severity) {
    const double expected = 255.0 * std::sqrt(0.5 / at_severity(kPhotons, severity));
    EXPECT_NEAR(spread_of(shot_noise_of(127, severity)), expected, 0.2) << severity;
  }
  EXPECT_NEAR(spread_of(shot_noise_of(127, 1)) / 255.0, .0316, .0002);
  EXPECT_NEAR(spread_of(shot_noise_of(127, 5)) / 255.0, .1, .0005);
  EXPECT_EQ(shot_noise_of(0, 5)[0], 1.0);
}

// spec: input-noise D2: only multiples of 1/c can come out
TEST(ShotNoise, GivesWholePhotonsOnly) {
  const ByteDistribution row = shot_noise_of(100, 5);
  for (std::size_t value = 0; value < 255; ++value) {
    bool possible = false;
    for (std::size_t count = 0; count <= 50; ++count) {
      possible = possible || 255 * count / 50 == value;
    }
    EXPECT_EQ(row[value] > 0.0, possible) << value;
  }
}

// spec: input-noise D3
TEST(ImpulseNoise, SplitsItsShareBetweenBlackAndWhite) {
  constexpr PerSeverity<double> kShare{.01, .02, .03, .05, .07};
  for (int severity = 1; severity <= 5; ++severity) {
    const ByteDistribution row = impulse_noise_of(100, severity);
    const double share = at_severity(kShare, severity);
    EXPECT_DOUBLE_EQ(row[0], share / 2.0);
    EXPECT_DOUBLE_EQ(row[255], share / 2.0);
    EXPECT_DOUBLE_EQ(row[100], 1.0 - share);
  }
}

// spec: input-noise C6
TEST(ImpulseNoise, SeverityFiveSetsThreeAndAHalfPercentAtEachEnd) {
  std::int64_t black = 0;
  std::int64_t white = 0;
  std::int64_t total = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    Picture picture = flat(3, 32, 128);
    Stream stream(i, "impulse");
    impulse_noise(picture.view(), 5, stream);
    for (const std::uint8_t byte : picture.bytes) {
      black += byte == 0 ? 1 : 0;
      white += byte == 255 ? 1 : 0;
      ASSERT_TRUE(byte == 0 || byte == 128 || byte == 255);
      ++total;
    }
  }
  EXPECT_NEAR(static_cast<double>(black) / static_cast<double>(total), .035, .003);
  EXPECT_NEAR(static_cast<double>(white) / static_cast<double>(total), .035, .003);
}

// spec: input-noise D4
TEST(SpeckleNoise, GrowsWithTheValue) {
  constexpr PerSeverity<double> kSpread{.06, .10, .12, .16, .20};
  for (int severity = 1; severity <= 5; ++severity) {
    EXPECT_NEAR(spread_of(speckle_noise_of(100, severity)), 100.0 * at_severity(kSpread, severity),
                0.05);
    EXPECT_EQ(speckle_noise_of(0, severity)[0], 1.0);
  }
}

// spec: input-noise C6
TEST(GaussianPatch, IsHalfBlackAndASixthWhite) {
  const ByteDistribution row = gaussian_patch_distribution();
  EXPECT_NEAR(row[0], .5, .002);
  EXPECT_NEAR(row[255], .1587, .0001);
  EXPECT_NEAR(mean_of(row), 80.5, .3);

  Picture picture(3, 200, 200, 9);
  Stream stream(1, "patch");
  gaussian_patch(picture.view(), stream);
  const auto count = static_cast<double>(picture.bytes.size());
  const auto zeros = std::count(picture.bytes.begin(), picture.bytes.end(), 0);
  const auto whites = std::count(picture.bytes.begin(), picture.bytes.end(), 255);
  EXPECT_NEAR(static_cast<double>(zeros) / count, .5, .007);
  EXPECT_NEAR(static_cast<double>(whites) / count, .1587, .005);
  EXPECT_NEAR(std::accumulate(picture.bytes.begin(), picture.bytes.end(), 0.0) / count, 80.5, 1.2);
}

TEST(Black, LeavesNothing) {
  Picture picture = flat(3, 32, 200);
  black(picture.view());
  EXPECT_EQ(std::accumulate(picture.bytes.begin(), picture.bytes.end(), 0), 0);
}

TEST(AliasRow, DrawsItsDistributionAndNothingElse) {
  ByteDistribution distribution{};
  distribution[3] = .5;
  distribution[7] = .3;
  distribution[250] = .2;
  const AliasRow row(distribution);
  Stream stream(4, "alias");
  std::array<int, 256> counts{};
  for (int i = 0; i < 100000; ++i) {
    ++counts[row.draw(stream.next_u32())];
  }
  EXPECT_NEAR(counts[3], 50000, 800);
  EXPECT_NEAR(counts[7], 30000, 800);
  EXPECT_NEAR(counts[250], 20000, 800);
  EXPECT_EQ(counts[3] + counts[7] + counts[250], 100000);
}

TEST(AliasRow, AgreesWithTheDistributionOverAllSlots) {
  const ByteDistribution distribution = gaussian_noise_of(30, 3);
  const AliasRow row(distribution);
  ByteDistribution seen{};
  constexpr std::uint32_t kSteps = 4096;  // an even sweep over the fraction of every slot
  for (std::uint32_t slot = 0; slot < 256; ++slot) {
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const std::uint32_t fraction = step * ((1U << 24) / kSteps) + 2048;
      seen[row.draw((fraction << 8) | slot)] += 1.0 / (256.0 * kSteps);
    }
  }
  for (std::size_t value = 0; value < 256; ++value) {
    EXPECT_NEAR(seen[value], distribution[value], 2e-5) << value;
  }
}

TEST(ByteNoise, DrawsMatchTheTable) {
  Picture picture(1, 300, 300, 128);
  Stream stream(2, "noise");
  gaussian_noise(picture.view(), 5, stream);
  const auto count = static_cast<double>(picture.bytes.size());
  const double mean = std::accumulate(picture.bytes.begin(), picture.bytes.end(), 0.0) / count;
  double squares = 0.0;
  for (const std::uint8_t byte : picture.bytes) {
    squares += std::pow(static_cast<double>(byte) - mean, 2);
  }
  EXPECT_NEAR(mean, 127.5, 0.4);
  EXPECT_NEAR(std::sqrt(squares / count), 25.5, 0.3);
}

}  // namespace winnow::distortion::distortion_noise_test
