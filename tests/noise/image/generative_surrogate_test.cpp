#include "winnow/noise/image/generative_surrogate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "noise/image/distortion_pictures.h"
#include "winnow/base/error.h"

namespace winnow::generative_surrogate_test {

using ::testing::HasSubstr;
using testing_pictures::Picture;

std::vector<Picture> gallery(std::uint64_t seed, int count) {
  const GenerativeSurrogate generator(seed);
  std::vector<Picture> pictures;
  for (int i = 0; i < count; ++i) {
    pictures.emplace_back(3, 32, 32);
    Stream stream(seed, "gallery", i);
    generator.paint(pictures.back().view(), stream);
  }
  return pictures;
}

// spec: input-noise 1.8: mean 126.1-127.6, std 60-61, 4.4-4.7 % saturated, per-pixel std
// across images 52.9-57.0
TEST(GenerativeSurrogate, HasTheMeasuredStatistics) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const std::vector<Picture> pictures = gallery(seed, 20);
    double sum = 0.0;
    double squares = 0.0;
    double saturated = 0.0;
    double pixel_spread = 0.0;
    for (std::size_t i = 0; i < 3072; ++i) {
      double pixel_sum = 0.0;
      double pixel_squares = 0.0;
      for (const Picture& picture : pictures) {
        const double level = picture.bytes[i];
        pixel_sum += level;
        pixel_squares += level * level;
        saturated += level == 0.0 || level == 255.0 ? 1.0 : 0.0;
      }
      sum += pixel_sum;
      squares += pixel_squares;
      pixel_spread += std::sqrt(pixel_squares / 20.0 - std::pow(pixel_sum / 20.0, 2)) / 3072.0;
    }
    const double count = 3072.0 * 20.0;
    const double mean = sum / count;
    EXPECT_NEAR(mean, 126.9, 1.5) << seed;
    EXPECT_NEAR(std::sqrt(squares / count - mean * mean), 60.5, 1.5) << seed;
    EXPECT_NEAR(saturated / count, .0455, .008) << seed;
    EXPECT_NEAR(pixel_spread, 55.0, 4.5) << seed;
  }
}

TEST(GenerativeSurrogate, NeighboursResembleEachOther) {
  const Picture picture = gallery(4, 1).front();
  double product = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i + 1 < 3072; ++i) {
    const double here = picture.bytes[i] - 127.0;
    if (i % 32 != 31) {
      product += here * (picture.bytes[i + 1] - 127.0);
    }
    squares += here * here;
  }
  EXPECT_GT(product / squares, .25);
}

TEST(GenerativeSurrogate, SeedDecidesTheWeightsAndTheStreamThePicture) {
  const auto paint = [](std::uint64_t seed, std::uint64_t key) {
    Picture picture(3, 32, 32);
    Stream stream(key, "one");
    GenerativeSurrogate(seed).paint(picture.view(), stream);
    return picture.bytes;
  };
  EXPECT_EQ(paint(1, 1), paint(1, 1));
  EXPECT_NE(paint(1, 1), paint(1, 2));
  EXPECT_NE(paint(1, 1), paint(2, 1));
}

TEST(GenerativeSurrogate, FixedPictureIsAlwaysTheSame) {
  const GenerativeSurrogate generator(8);
  Picture one(3, 32, 32);
  Picture two(3, 32, 32, 77);
  generator.paint_fixed(one.view());
  generator.paint_fixed(two.view());
  EXPECT_EQ(one.bytes, two.bytes);
}

TEST(GenerativeSurrogate, PaintsEverySizeWithTheSameBrightness) {
  const GenerativeSurrogate generator(2);
  for (const auto& [channels, side] : {std::pair<std::int64_t, std::int64_t>{1, 28}, {3, 64}}) {
    Picture picture(channels, side, side);
    Stream stream(1, "size");
    generator.paint(picture.view(), stream);
    double sum = 0.0;
    double squares = 0.0;
    for (const std::uint8_t byte : picture.bytes) {
      sum += byte;
      squares += static_cast<double>(byte) * byte;
    }
    const auto count = static_cast<double>(picture.bytes.size());
    EXPECT_NEAR(sum / count, 127.0, 4.0);
    EXPECT_NEAR(std::sqrt(squares / count - std::pow(sum / count, 2)), 60.5, 3.0);
  }
}

TEST(GenMode, IsReadByName) {
  EXPECT_EQ(parse_gen_mode("per_sample"), GenMode::per_sample);
  EXPECT_EQ(parse_gen_mode("fixed"), GenMode::fixed);
  try {
    parse_gen_mode("fixd");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("gen_mode 'fixd' is not known"));
    EXPECT_EQ(error.hint(), "did you mean 'fixed'?");
  }
}

}  // namespace winnow::generative_surrogate_test
