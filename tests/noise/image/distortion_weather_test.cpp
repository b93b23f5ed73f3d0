#include "winnow/noise/image/distortion_weather.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "noise/image/distortion_pictures.h"
#include "winnow/noise/image/distortion_spatter.h"
#include "winnow/noise/image/plasma.h"

namespace winnow::distortion::distortion_weather_test {

using testing_pictures::flat;
using testing_pictures::Picture;

// spec: input-noise C5
TEST(Snow, WhitensTheWorkedColour) {
  const Rgb light = snow_base({.8F, .4F, .2F}, .95F);
  EXPECT_NEAR(light.r, .82226, 1e-5);
  EXPECT_NEAR(light.g, .44226, 1e-5);
  EXPECT_NEAR(light.b, .25226, 1e-5);
  const Rgb heavy = snow_base({.8F, .4F, .2F}, .8F);
  EXPECT_NEAR(heavy.r, .88904, 1e-5);
  EXPECT_NEAR(heavy.g, .56904, 1e-5);
  EXPECT_NEAR(heavy.b, .40904, 1e-5);
}

// spec: input-noise D10
TEST(Snow, FlakesAreSymmetricUnderAHalfTurn) {
  for (int severity = 1; severity <= 5; ++severity) {
    Stream stream(2, "snow");
    const Plane flakes = snow_flakes(32, 32, severity, stream);
    for (std::size_t i = 0; i < flakes.values.size(); ++i) {
      EXPECT_EQ(flakes.values[i], flakes.values[flakes.values.size() - 1 - i]);
      EXPECT_GE(flakes.values[i], 0.0F);
      EXPECT_LE(flakes.values[i], 2.0F);
    }
  }
}

// spec: input-noise D10: without blur the mean of a flake layer is E[s; s >= thr] with s ~ N(loc,
// std), and blurring keeps means; at severities 1 and 2 there is no zoom to smooth the layer first.
TEST(Snow, AmountOfSnowFollowsTheConstants) {
  const auto expected = [](double mean, double spread, double threshold) {
    double sum = 0.0;
    for (int i = 0; i < 20000; ++i) {  // the midpoint rule over [thr, 1]
      const double s = threshold + (1.0 - threshold) * (i + 0.5) / 20000.0;
      const double z = (s - mean) / spread;
      sum += s * std::exp(-z * z / 2.0) / (spread * std::sqrt(2.0 * M_PI));
    }
    return sum * (1.0 - threshold) / 20000.0;
  };
  const auto measured = [](int severity) {
    double sum = 0.0;
    for (std::uint64_t i = 0; i < 400; ++i) {
      Stream stream(i, "snow");
      const Plane flakes = snow_flakes(32, 32, severity, stream);
      sum += std::accumulate(flakes.values.begin(), flakes.values.end(), 0.0) / 1024.0;
    }
    return sum / 400.0 / 2.0;
  };
  EXPECT_NEAR(measured(1), expected(.1, .2, .6), .001);
  EXPECT_NEAR(measured(2), expected(.1, .2, .5), .002);
  const double third = measured(3);
  const double fifth = measured(5);
  EXPECT_GT(third, .01);
  EXPECT_GT(fifth, third);
}

TEST(Snow, MakesBlackImagesLighter) {
  Picture picture = flat(3, 32, 0);
  Stream stream(1, "snow");
  snow(picture.view(), 1, stream);
  // A black pixel becomes at least (1 - .95) * .5 = .025 = 6.375 levels.
  EXPECT_GE(*std::min_element(picture.bytes.begin(), picture.bytes.end()), 6);
}

// spec: input-noise C4
TEST(Plasma, RunsFromZeroToOneWithTheMeanInTheMiddle) {
  double mean = 0.0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    Stream stream(i, "plasma");
    const Plane field = plasma(32, 3.0, stream);
    EXPECT_EQ(*std::min_element(field.values.begin(), field.values.end()), 0.0F);
    EXPECT_EQ(*std::max_element(field.values.begin(), field.values.end()), 1.0F);
    mean += std::accumulate(field.values.begin(), field.values.end(), 0.0) / 1024.0 / 100.0;
  }
  EXPECT_NEAR(mean, .5, .03);
}

// spec: input-noise C4
TEST(Plasma, IsRougherWithASmallerDecay) {
  const auto roughness = [](double decay) {
    double sum = 0.0;
    for (std::uint64_t i = 0; i < 200; ++i) {
      Stream stream(i, "plasma");
      const Plane field = plasma(32, decay, stream);
      for (std::int64_t y = 0; y < 32; ++y) {
        for (std::int64_t x = 0; x < 31; ++x) {
          sum += std::abs(field.row(y)[x + 1] - field.row(y)[x]) / (32.0 * 31.0 * 200.0);
        }
      }
    }
    return sum;
  };
  EXPECT_NEAR(roughness(3.0), .020, .002);
  EXPECT_NEAR(roughness(1.75), .029, .003);
}

TEST(Plasma, WrapsRoundAndTakesAnySize) {
  Stream stream(1, "plasma");
  const Plane field = plasma(64, 3.0, stream);
  double across_seam = 0.0;
  for (std::int64_t y = 0; y < 64; ++y) {
    across_seam = std::max<double>(across_seam, std::abs(field.row(y)[0] - field.row(y)[63]));
  }
  EXPECT_LT(across_seam, .2);
  EXPECT_EQ(plasma_side(1), 1);
  EXPECT_EQ(plasma_side(28), 32);
  EXPECT_EQ(plasma_side(32), 32);
  EXPECT_EQ(plasma_side(33), 64);
  EXPECT_EQ(plasma(1, 3.0, stream).values, std::vector<float>{0.0F});
}

// spec: input-noise C4, D12
TEST(Fog, KeepsAConstantImageInTheWorkedRange) {
  constexpr PerSeverity<double> kDensity{.2, .5, .75, 1.0, 1.5};
  for (int severity = 1; severity <= 5; ++severity) {
    Picture picture = flat(3, 32, 153);  // .6
    Stream stream(9, "fog");
    fog(picture.view(), severity, stream);
    const double low = .6 * .6 / (.6 + at_severity(kDensity, severity));
    const auto [least, most] = std::minmax_element(picture.bytes.begin(), picture.bytes.end());
    EXPECT_EQ(*least, static_cast<int>(255.0 * low)) << severity;
    EXPECT_EQ(*most, 153) << severity;
    for (std::size_t i = 0; i < 1024; ++i) {
      EXPECT_EQ(picture.bytes[i], picture.bytes[i + 2048]);  // one map for all channels
    }
  }
}

TEST(Fog, LeavesABlackImageBlack) {
  Picture picture = flat(1, 28, 0);
  Stream stream(9, "fog");
  fog(picture.view(), 5, stream);
  EXPECT_EQ(picture.bytes, flat(1, 28, 0).bytes);
}

// spec: input-noise D19
TEST(Spatter, LiquidIsZeroOrAboveItsThreshold) {
  constexpr PerSeverity<float> kThreshold{.7F, .7F, .69F, .69F, .68F};
  for (int severity = 1; severity <= 5; ++severity) {
    Stream stream(1, "spatter");
    const Plane liquid = spatter_liquid(32, 32, severity, stream);
    float least = 1.0F;
    for (const float value : liquid.values) {
      if (value != 0.0F) {
        least = std::min(least, value);
      }
    }
    EXPECT_GE(least, at_severity(kThreshold, severity));
    EXPECT_LT(least, at_severity(kThreshold, severity) + .01F);
  }
}

// spec: input-noise D19
TEST(Spatter, MudCoversWithItsColour) {
  for (const int severity : {4, 5}) {
    Picture picture = flat(3, 32, 255);
    Stream stream(1, "spatter");
    spatter(picture.view(), severity, stream);
    int covered = 0;
    for (std::size_t i = 0; i < 1024; ++i) {
      if (picture.bytes[i] == 255) {
        EXPECT_EQ(picture.bytes[i + 1024], 255);
        continue;
      }
      ++covered;
      // At least .8 of every covered pixel is mud.
      EXPECT_LE(picture.bytes[i], 255 - .8 * (255 - 63));
      EXPECT_GE(picture.bytes[i], 62);
      EXPECT_LE(picture.bytes[i + 1024], 255 - .8 * (255 - 42));
      EXPECT_GE(picture.bytes[i + 1024], 41);
      EXPECT_LE(picture.bytes[i + 2048], 255 - .8 * (255 - 20));
      EXPECT_GE(picture.bytes[i + 2048], 19);
    }
    EXPECT_GT(covered, 5) << severity;
  }
}

TEST(Spatter, MudHidesTheMiddleOfADrop) {
  Plane liquid(16, 16);
  for (std::int64_t y = 4; y < 12; ++y) {
    std::fill_n(liquid.row(y) + 4, 8, .9F);
  }
  const Plane cover = mud_cover(liquid, .69F, .6);
  EXPECT_NEAR(cover.row(8)[8], 1.0F, 1e-3);
  EXPECT_EQ(cover.row(0)[0], 0.0F);
  EXPECT_EQ(cover.row(4)[4], 0.0F);  // the corner is covered by less than .8
}

TEST(Spatter, WaterLightIsScaledToItsStrength) {
  Plane liquid(32, 32);
  for (std::int64_t y = 8; y < 20; ++y) {
    std::fill_n(liquid.row(y) + 8, 12, .8F);
  }
  const Plane light = water_light(liquid, .5F);
  EXPECT_FLOAT_EQ(*std::max_element(light.values.begin(), light.values.end()), .5F);
  EXPECT_EQ(light.row(0)[0], 0.0F);  // no liquid, no light
  const Plane dry = water_light(Plane(32, 32), .5F);
  EXPECT_EQ(*std::max_element(dry.values.begin(), dry.values.end()), 0.0F);
}

// spec: input-noise D19
TEST(Spatter, WaterOnlyAddsLightOfItsColour) {
  for (const int severity : {1, 2, 3}) {
    Picture picture = flat(3, 32, 0);
    Stream stream(5, "spatter");
    spatter(picture.view(), severity, stream);
    int most_red = 0;
    for (std::size_t i = 0; i < 1024; ++i) {
      EXPECT_EQ(picture.bytes[i + 1024], picture.bytes[i + 2048]);
      EXPECT_NEAR(picture.bytes[i], picture.bytes[i + 1024] * 175.0 / 238.0, 1.01);
      most_red = std::max<int>(most_red, picture.bytes[i]);
    }
    EXPECT_EQ(most_red, 87) << severity;  // .5 * 175
  }
}

TEST(Spatter, GreyImagesGetTheLumaOfMudAndWater) {
  Picture mud = flat(1, 32, 255);
  Stream stream(1, "spatter");
  spatter(mud.view(), 5, stream);
  EXPECT_GE(*std::min_element(mud.bytes.begin(), mud.bytes.end()), 45);
  Picture water = flat(1, 32, 0);
  spatter(water.view(), 3, stream);
  EXPECT_EQ(*std::max_element(water.bytes.begin(), water.bytes.end()), 109);  // .5 * 219.163
}

}  // namespace winnow::distortion::distortion_weather_test
