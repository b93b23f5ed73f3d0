#include "winnow/noise/image/distortion_colour.h"

#include <gtest/gtest.h>

#include "noise/image/distortion_pictures.h"

namespace winnow::distortion::distortion_colour_test {

using testing_pictures::Picture;

void expect_colour(const Rgb& colour, double r, double g, double b) {
  EXPECT_NEAR(colour.r, r, 5e-5);
  EXPECT_NEAR(colour.g, g, 5e-5);
  EXPECT_NEAR(colour.b, b, 5e-5);
}

TEST(Hsv, GoesThereAndBack) {
  for (int r = 0; r <= 10; ++r) {
    for (int g = 0; g <= 10; ++g) {
      for (int b = 0; b <= 10; ++b) {
        const Rgb colour{static_cast<float>(r) / 10, static_cast<float>(g) / 10,
                         static_cast<float>(b) / 10};
        const Rgb back = to_rgb(to_hsv(colour));
        EXPECT_NEAR(back.r, colour.r, 1e-6);
        EXPECT_NEAR(back.g, colour.g, 1e-6);
        EXPECT_NEAR(back.b, colour.b, 1e-6);
      }
    }
  }
  const Hsv blue = to_hsv({0.0F, 0.0F, 1.0F});
  EXPECT_FLOAT_EQ(blue.h, 4.0F / 6.0F);
  EXPECT_EQ(to_hsv({.5F, .5F, .5F}).h, 0.0F);
  EXPECT_EQ(to_hsv({.5F, .5F, .5F}).s, 0.0F);
}

// spec: input-noise C1, D13
TEST(Brightness, AddsToTheValue) {
  expect_colour(brighten({.8F, .4F, .2F}, 1), .85, .425, .2125);
  expect_colour(brighten({.8F, .4F, .2F}, 2), .9, .45, .225);
  expect_colour(brighten({.8F, .4F, .2F}, 3), .95, .475, .2375);
  expect_colour(brighten({.8F, .4F, .2F}, 4), 1.0, .5, .25);
  expect_colour(brighten({.8F, .4F, .2F}, 5), 1.0, .5, .25);
  expect_colour(brighten({.4F, .2F, .1F}, 4), .6, .3, .15);
  expect_colour(brighten({.4F, .2F, .1F}, 5), .7, .35, .175);
  expect_colour(brighten({0.0F, 0.0F, 0.0F}, 5), .3, .3, .3);
}

// spec: input-noise C1, D15
TEST(Saturate, ScalesTheSaturation) {
  expect_colour(saturate({.8F, .4F, .2F}, 1), .8, .68, .62);
  expect_colour(saturate({.8F, .4F, .2F}, 2), .8, .76, .74);
  expect_colour(saturate({.8F, .4F, .2F}, 3), .8, .2667, 0);
  expect_colour(saturate({.8F, .72F, .76F}, 4), .8, .56, .68);  // S .1 -> .3
  expect_colour(saturate({.8F, .72F, .76F}, 5), .8, .44, .62);  // S .1 -> .45
}

// spec: input-noise D15
TEST(Saturate, TintsGreyWithRed) {
  expect_colour(saturate({.5F, .5F, .5F}, 4), .5, .45, .45);
  expect_colour(saturate({.5F, .5F, .5F}, 5), .5, .4, .4);
}

TEST(Saturate, WritesTheLumaBackForGreyImages) {
  for (const auto& [severity, level] :
       {std::pair{1, 200}, {2, 200}, {3, 200}, {4, 185}, {5, 171}}) {
    Picture picture(1, 4, 4, 200);
    saturate(picture.view(), severity);
    EXPECT_EQ(picture.at(0, 1, 1), level) << severity;
  }
}

TEST(Brightness, LightensGreyImages) {
  Picture picture(1, 4, 4, 100);
  brightness(picture.view(), 5);
  EXPECT_EQ(picture.at(0, 0, 0), 176);  // 100 + 76.5, truncated
}

// spec: input-noise C2, D14
TEST(Contrast, PullsTowardsTheMeanOfEachChannel) {
  constexpr PerSeverity<double> kKept{.75, .5, .4, .3, .15};
  // Values .2, .4, .9 with mean .5.
  for (int severity = 1; severity <= 5; ++severity) {
    Picture picture(1, 1, 3);
    picture.bytes = {51, 102, 229};
    const double mean = (51 + 102 + 229) / 3.0;
    contrast(picture.view(), severity);
    const double kept = at_severity(kKept, severity);
    EXPECT_EQ(picture.bytes[0], static_cast<int>((51 - mean) * kept + mean));
    EXPECT_EQ(picture.bytes[1], static_cast<int>((102 - mean) * kept + mean));
    EXPECT_EQ(picture.bytes[2], static_cast<int>((229 - mean) * kept + mean));
  }
}

TEST(Contrast, GivesTheWorkedNumbers) {
  Picture picture(1, 1, 6);
  picture.bytes = {51, 102, 229, 51, 102, 230};  // .2 .4 .9 in mean: 229.5
  Picture strong = picture;
  contrast(picture.view(), 1);
  EXPECT_NEAR(picture.bytes[0] / 255.0, .275, 1.01 / 255);
  EXPECT_NEAR(picture.bytes[1] / 255.0, .425, 1.01 / 255);
  EXPECT_NEAR(picture.bytes[2] / 255.0, .8, 1.01 / 255);
  contrast(strong.view(), 5);
  EXPECT_NEAR(strong.bytes[0] / 255.0, .455, 1.01 / 255);
  EXPECT_NEAR(strong.bytes[1] / 255.0, .485, 1.01 / 255);
  EXPECT_NEAR(strong.bytes[2] / 255.0, .56, 1.01 / 255);
}

TEST(Contrast, TreatsChannelsApart) {
  Picture picture(3, 8, 8, 10);
  std::fill_n(picture.bytes.begin() + 64, 64, std::uint8_t{200});
  const Picture before = picture;
  contrast(picture.view(), 5);
  EXPECT_EQ(picture.bytes, before.bytes);
}

}  // namespace winnow::distortion::distortion_colour_test
