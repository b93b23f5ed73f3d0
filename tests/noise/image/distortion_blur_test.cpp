#include "winnow/noise/image/distortion_blur.h"

#include <gtest/gtest.h>

#include <set>

#include "noise/image/distortion_pictures.h"
#include "winnow/noise/image/filter.h"

namespace winnow::distortion::distortion_blur_test {

using testing_pictures::natural;
using testing_pictures::Picture;

// spec: input-noise D5
TEST(GaussianBlur, UsesTheListedSigmas) {
  constexpr PerSeverity<double> kSigma{.4, .6, .7, .8, 1.0};
  for (int severity = 1; severity <= 5; ++severity) {
    Picture picture = natural(3, 32);
    Picture expected = picture;
    for (std::int64_t c = 0; c < 3; ++c) {
      store_plane(gaussian_filter(load_plane(expected.view(), c), at_severity(kSigma, severity)),
                  expected.view(), c);
    }
    gaussian_blur(picture.view(), severity);
    EXPECT_EQ(picture.bytes, expected.bytes) << severity;
  }
}

// spec: input-noise D6, C3
TEST(DefocusBlur, SeverityFiveIsTheMeanOfNine) {
  Picture picture = natural(1, 16);
  Picture before = picture;
  defocus_blur(picture.view(), 5);
  for (std::int64_t y = 1; y < 15; ++y) {
    for (std::int64_t x = 1; x < 15; ++x) {
      int sum = 0;
      for (std::int64_t i = -1; i <= 1; ++i) {
        for (std::int64_t j = -1; j <= 1; ++j) {
          sum += before.at(0, y + i, x + j);
        }
      }
      EXPECT_EQ(picture.at(0, y, x), sum / 9) << y << "," << x;
    }
  }
}

TEST(DefocusBlur, ReflectsWithoutRepeatingTheEdge) {
  Picture picture(1, 8, 8, 0);
  picture.at(0, 1, 1) = 90;
  defocus_blur(picture.view(), 5);
  // The corner sees the pixel at (1,1) four times, once in each reflected direction.
  EXPECT_EQ(picture.at(0, 0, 0), 40);
  EXPECT_EQ(picture.at(0, 0, 1), 20);
  EXPECT_EQ(picture.at(0, 1, 1), 10);
}

// spec: input-noise D7, A15
TEST(GlassBlur, CopiesFromTheNeighbourAboveOrToTheLeft) {
  // Severity 1 has radius 0: only the copying is left.
  Picture before(1, 32, 32);
  for (std::size_t i = 0; i < before.bytes.size(); ++i) {
    before.bytes[i] = static_cast<std::uint8_t>(i % 251);
  }
  Picture after = before;
  Stream stream(3, "glass");
  glass_blur(after.view(), 1, stream);
  int moved = 0;
  for (std::int64_t y = 0; y < 32; ++y) {
    for (std::int64_t x = 0; x < 32; ++x) {
      if (y < 2 || x < 2) {
        EXPECT_EQ(after.at(0, y, x), before.at(0, y, x));
        continue;
      }
      const std::set<int> allowed{before.at(0, y, x), before.at(0, y - 1, x),
                                  before.at(0, y, x - 1), before.at(0, y - 1, x - 1)};
      EXPECT_EQ(allowed.count(after.at(0, y, x)), 1U) << y << "," << x;
      moved += after.at(0, y, x) != before.at(0, y, x) ? 1 : 0;
    }
  }
  EXPECT_NEAR(moved, 675, 60);  // three of four draws name another pixel
}

TEST(GlassBlur, TrueSwapKeepsAllValues) {
  Picture picture = natural(1, 32);
  Picture swapped = picture;
  Stream stream(3, "glass");
  glass_blur(swapped.view(), 1, stream, GlassExchange::true_swap);
  EXPECT_NE(swapped.bytes, picture.bytes);
  EXPECT_EQ(std::multiset<std::uint8_t>(swapped.bytes.begin(), swapped.bytes.end()),
            std::multiset<std::uint8_t>(picture.bytes.begin(), picture.bytes.end()));
}

TEST(GlassBlur, MovesAllChannelsTogether) {
  Picture picture = natural(1, 32);
  Picture colour(3, 32, 32);
  for (std::size_t i = 0; i < colour.bytes.size(); ++i) {
    colour.bytes[i] = picture.bytes[i % picture.bytes.size()];
  }
  Stream stream(3, "glass");
  glass_blur(colour.view(), 5, stream);
  for (std::size_t i = 0; i < picture.bytes.size(); ++i) {
    EXPECT_EQ(colour.bytes[i], colour.bytes[i + 1024]);
    EXPECT_EQ(colour.bytes[i], colour.bytes[i + 2048]);
  }
}

// spec: input-noise D7: severities 4 and 5 repeat the copying, which carries values up to two
// pixels away
TEST(GlassBlur, TwoIterationsReachFurther) {
  const auto farthest = [](int severity) {
    std::int64_t reach = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Picture picture(1, 32, 32, 0);
      picture.at(0, 10, 10) = 255;
      Stream stream(seed, "glass");
      glass_blur(picture.view(), severity, stream);
      for (std::int64_t y = 0; y < 32; ++y) {
        for (std::int64_t x = 0; x < 32; ++x) {
          if (picture.at(0, y, x) > 60) {
            reach = std::max({reach, y - 10, x - 10});
          }
        }
      }
    }
    return reach;
  };
  EXPECT_EQ(farthest(1), 1);
  EXPECT_EQ(farthest(2), 1);
  EXPECT_EQ(farthest(4), 2);
}

// spec: input-noise D8
TEST(MotionBlur, DrawsItsAngleBetweenMinusAndPlusFortyFiveDegrees) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Picture picture(1, 32, 32, 0);
    picture.at(0, 16, 16) = 255;
    Stream stream(seed, "motion");
    motion_blur(picture.view(), 5, stream);
    for (std::int64_t y = 0; y < 32; ++y) {
      for (std::int64_t x = 0; x < 32; ++x) {
        if (picture.at(0, y, x) > 0) {
          EXPECT_LE(x, 16);
          EXPECT_LE(std::abs(y - 16), 16 - x);
        }
      }
    }
    EXPECT_GE(picture.at(0, 16, 16), 70);  // .275233 * 255 = 70.18
  }
}

// spec: input-noise D9
TEST(ZoomBlur, KeepsTheMiddleSharperThanTheEdge) {
  Picture picture(1, 32, 32);
  for (std::int64_t y = 0; y < 32; ++y) {
    for (std::int64_t x = 0; x < 32; ++x) {
      picture.at(0, y, x) = x % 4 < 2 ? 40 : 200;
    }
  }
  Picture blurred = picture;
  zoom_blur(blurred.view(), 5);
  const auto swing = [&blurred](std::int64_t first) {
    int low = 255;
    int high = 0;
    for (std::int64_t x = first; x < first + 4; ++x) {
      low = std::min<int>(low, blurred.at(0, 16, x));
      high = std::max<int>(high, blurred.at(0, 16, x));
    }
    return high - low;
  };
  EXPECT_GT(swing(14), swing(0) + 30);
  EXPECT_GT(swing(14), swing(28) + 30);
}

}  // namespace winnow::distortion::distortion_blur_test
