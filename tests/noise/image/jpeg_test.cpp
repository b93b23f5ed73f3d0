#include "winnow/noise/image/jpeg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "noise/image/distortion_pictures.h"
#include "winnow/noise/image/distortion.h"

namespace winnow::distortion::jpeg_test {

using ::testing::ElementsAre;
using testing_pictures::flat;
using testing_pictures::mean_change;
using testing_pictures::natural;
using testing_pictures::Picture;

std::vector<int> row(const JpegTable& table, std::size_t y) {
  const auto first = table.begin() + static_cast<std::ptrdiff_t>(8 * y);
  return {first, first + 8};
}

// spec: input-noise C7
TEST(JpegTables, FirstLumaRowsAreAsWorked) {
  EXPECT_THAT(row(jpeg_luma_table(80), 0), ElementsAre(6, 4, 4, 6, 10, 16, 20, 24));
  EXPECT_THAT(row(jpeg_luma_table(40), 0), ElementsAre(20, 14, 13, 20, 30, 50, 64, 76));
}

// spec: input-noise D18: quality 50 is the base itself
TEST(JpegTables, QualityFiftyIsTheBase) {
  const JpegTable luma = jpeg_luma_table(50);
  EXPECT_THAT(row(luma, 1), ElementsAre(12, 12, 14, 19, 26, 58, 60, 55));
  EXPECT_THAT(row(luma, 2), ElementsAre(14, 13, 16, 24, 40, 57, 69, 56));
  EXPECT_THAT(row(luma, 3), ElementsAre(14, 17, 22, 29, 51, 87, 80, 62));
  EXPECT_THAT(row(luma, 4), ElementsAre(18, 22, 37, 56, 68, 109, 103, 77));
  EXPECT_THAT(row(luma, 5), ElementsAre(24, 35, 55, 64, 81, 104, 113, 92));
  EXPECT_THAT(row(luma, 6), ElementsAre(49, 64, 78, 87, 103, 121, 120, 101));
  EXPECT_THAT(row(luma, 7), ElementsAre(72, 92, 95, 98, 112, 100, 103, 99));
  const JpegTable chroma = jpeg_chroma_table(50);
  EXPECT_THAT(row(chroma, 0), ElementsAre(17, 18, 24, 47, 99, 99, 99, 99));
  EXPECT_THAT(row(chroma, 1), ElementsAre(18, 21, 26, 66, 99, 99, 99, 99));
  EXPECT_THAT(row(chroma, 2), ElementsAre(24, 26, 56, 99, 99, 99, 99, 99));
  EXPECT_THAT(row(chroma, 3), ElementsAre(47, 66, 99, 99, 99, 99, 99, 99));
  EXPECT_THAT(row(chroma, 7), ElementsAre(99, 99, 99, 99, 99, 99, 99, 99));
}

TEST(JpegTables, StayBetweenOneAndTwoHundredFiftyFive) {
  for (const int entry : jpeg_luma_table(100)) {
    EXPECT_EQ(entry, 1);
  }
  for (const int entry : jpeg_luma_table(1)) {
    EXPECT_EQ(entry, 255);
  }
}

// spec: input-noise C7
TEST(Jpeg, FlatGreyMovesAsWorked) {
  for (const std::int64_t channels : {1, 3}) {
    Picture fine = flat(channels, 32, 100);
    jpeg_round_trip(fine.view(), 80);
    EXPECT_EQ(fine.bytes, flat(channels, 32, 100).bytes);
    Picture coarse = flat(channels, 32, 100);
    jpeg_round_trip(coarse.view(), 40);
    EXPECT_EQ(coarse.bytes, flat(channels, 32, 101).bytes);
  }
}

TEST(Jpeg, ATableOfOnesNearlyReturnsTheBlock) {
  std::array<double, 64> block{};
  for (std::size_t i = 0; i < 64; ++i) {
    block[i] = static_cast<double>(i * 37 % 256);
  }
  const std::array<double, 64> before = block;
  JpegTable ones{};
  ones.fill(1);
  jpeg_block(block, ones);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_NEAR(block[i], before[i], 2.0) << i;
  }
}

// A block that is one basis function: its coefficient is 4 * amplitude in the orthonormal DCT.
TEST(Jpeg, TheTransformIsOrthonormal) {
  std::array<double, 64> block{};
  for (std::size_t y = 0; y < 8; ++y) {
    for (std::size_t x = 0; x < 8; ++x) {
      block[y * 8 + x] = 128.0 + 25.0 *
                                     std::cos((2.0 * static_cast<double>(x) + 1.0) * M_PI / 16.0) *
                                     std::cos((2.0 * static_cast<double>(y) + 1.0) * M_PI / 16.0);
    }
  }
  const std::array<double, 64> before = block;
  JpegTable table{};
  table.fill(255);
  table[9] = 100;  // the coefficient is 100: kept whole
  std::array<double, 64> kept = block;
  jpeg_block(kept, table);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_NEAR(kept[i], before[i], .51);
  }
  table[9] = 201;  // less than half a step: gone
  jpeg_block(block, table);
  for (const double level : block) {
    EXPECT_EQ(level, 128.0);
  }
}

TEST(Jpeg, WorseQualityLosesMore) {
  const Picture before = natural(3, 32);
  double last = 0.0;
  for (const int quality : {80, 65, 58, 50, 40}) {
    Picture after = before;
    jpeg_round_trip(after.view(), quality);
    EXPECT_GT(mean_change(before, after), last) << quality;
    last = mean_change(before, after);
  }
}

// spec: input-noise D18
TEST(Jpeg, SeveritiesUseTheListedQualities) {
  constexpr PerSeverity<int> kQuality{80, 65, 58, 50, 40};
  for (int severity = 1; severity <= 5; ++severity) {
    Picture by_name = natural(3, 32);
    Picture by_quality = by_name;
    Stream stream(1, "jpeg");
    find_distortion("jpeg", builtin_distortions()).apply(by_name.view(), severity, stream);
    jpeg_round_trip(by_quality.view(), at_severity(kQuality, severity));
    EXPECT_EQ(by_name.bytes, by_quality.bytes);
  }
}

TEST(Jpeg, FlatColourStaysFlatAtAnySize) {
  for (const std::int64_t side : {1, 7, 16, 28, 33}) {
    Picture picture(3, side, side);
    const std::array<std::uint8_t, 3> colour{200, 120, 40};
    for (std::int64_t c = 0; c < 3; ++c) {
      std::fill_n(picture.bytes.begin() + c * side * side, side * side,
                  colour[static_cast<std::size_t>(c)]);
    }
    jpeg_round_trip(picture.view(), 80);
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::int64_t i = 0; i < side * side; ++i) {
        const int level = picture.bytes[static_cast<std::size_t>(c * side * side + i)];
        EXPECT_EQ(level, picture.bytes[static_cast<std::size_t>(c * side * side)]);
        EXPECT_NEAR(level, colour[static_cast<std::size_t>(c)], 4);
      }
    }
  }
}

}  // namespace winnow::distortion::jpeg_test
