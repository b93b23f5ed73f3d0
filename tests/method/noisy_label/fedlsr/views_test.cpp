#include "winnow/method/noisy_label/fedlsr/views.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numbers>

#include "testing/support.h"

namespace winnow::fedlsr::views_test {

using testing::FloatNear;
using testing::Pointwise;

auto near_to(float tolerance, const std::vector<float>& values) {
  return Pointwise(FloatNear(tolerance), values);
}

struct Knobs {
  float flip = 0;
  float brightness = 1;
  float contrast = 1;
  float saturation = 1;
  float hue = 0;
  float grey = 0;
};

std::vector<float> changed(const std::vector<float>& pixels, std::int64_t width,
                           const Knobs& knobs) {
  const at::Tensor row = at::tensor(
      {knobs.flip, knobs.brightness, knobs.contrast, knobs.saturation, knobs.hue, knobs.grey});
  return values_of(recolour(at::tensor(pixels).view({1, 3, 1, width}), row.view({1, 6})));
}

TEST(FedLsrViews, NeutralKnobsLeaveColoursAsTheyAre) {
  const at::Tensor pixels = at::rand({4, 3, 5, 6});
  const at::Tensor knobs =
      at::tensor({0.0F, 1.0F, 1.0F, 1.0F, 0.0F, 0.0F}).view({1, 6}).repeat({4, 1});
  EXPECT_TRUE(at::allclose(recolour(pixels, knobs), pixels, 1e-5, 1e-6));
}

TEST(FedLsrViews, FlipMirrorsTheColumns) {
  EXPECT_THAT(changed({.1F, .9F, .2F, .8F, .3F, .7F}, 2, {.flip = 1}),
              near_to(1e-6F, {.9F, .1F, .8F, .2F, .7F, .3F}));
}

TEST(FedLsrViews, BrightnessMultipliesUpToWhite) {
  EXPECT_THAT(changed({.2F, .4F, .8F}, 1, {.brightness = 1.5}), near_to(1e-6F, {.3F, .6F, 1.0F}));
}

TEST(FedLsrViews, ContrastIsAroundTheMeanGrey) {
  // Two grey pixels of .2 and .6 have the mean .4 (weights of the channels sum to .9999).
  EXPECT_THAT(changed({.2F, .6F, .2F, .6F, .2F, .6F}, 2, {.contrast = .5}),
              near_to(1e-4F, {.3F, .5F, .3F, .5F, .3F, .5F}));
}

TEST(FedLsrViews, SaturationIsAroundTheGreyOfEachPixel) {
  const float grey = .2989F * .8F + .587F * .4F + .114F * .2F;
  EXPECT_THAT(changed({.8F, .4F, .2F}, 1, {.saturation = .5}),
              near_to(1e-6F, {(.8F + grey) / 2, (.4F + grey) / 2, (.2F + grey) / 2}));
}

TEST(FedLsrViews, HueTurnsTheColourCircle) {
  // A third of a turn: red becomes green, green blue, blue red; grey stays.
  EXPECT_THAT(changed({1, 0, 0, .5F, 0, 1, 0, .5F, 0, 0, 1, .5F}, 4, {.hue = 1.0F / 3}),
              near_to(1e-5F, {0, 0, 1, .5F, 1, 0, 0, .5F, 0, 1, 0, .5F}));
  EXPECT_THAT(changed({.9F, .5F, .1F}, 1, {.hue = .5}), near_to(1e-5F, {.1F, .5F, .9F}));
  EXPECT_THAT(changed({.9F, .1F, .5F}, 1, {.hue = -1}), near_to(1e-5F, {.9F, .1F, .5F}));
}

TEST(FedLsrViews, GreyHasNoColour) {
  const float grey = .2989F * .8F + .587F * .4F + .114F * .2F;
  EXPECT_THAT(changed({.8F, .4F, .2F}, 1, {.grey = 1}), near_to(1e-6F, {grey, grey, grey}));
}

TEST(FedLsrViews, RotationTurnsCounterClockwiseAndFillsWithZeros) {
  const at::Tensor image = at::arange(1, 10, at::kFloat).view({1, 1, 3, 3});
  const auto turned = [&](double angle) {
    return values_of(rotate(image, at::tensor({static_cast<float>(angle)})));
  };
  EXPECT_THAT(turned(0), near_to(1e-5F, {1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_THAT(turned(std::numbers::pi / 2), near_to(1e-4F, {3, 6, 9, 2, 5, 8, 1, 4, 7}));
  const std::vector<float> slanted = turned(std::numbers::pi / 6);
  EXPECT_FLOAT_EQ(slanted[4], 5) << "the middle stays";
  EXPECT_LT(slanted[8], 6.0F) << "a corner comes partly from outside";
}

TEST(FedLsrViews, RotationOfAnOblongImageTurnsPixels) {
  // One lit pixel right of the middle of 3 rows and 5 columns goes above it.
  at::Tensor image = at::zeros({1, 1, 3, 5});
  image[0][0][1][3] = 1;
  at::Tensor expected = at::zeros({1, 1, 3, 5});
  expected[0][0][0][2] = 1;
  const at::Tensor angle = at::full({1}, std::numbers::pi / 2, at::kFloat);
  EXPECT_TRUE(at::allclose(rotate(image, angle), expected, 0, 1e-5));
}

TEST(FedLsrViews, AreMadeOfPixelsAndNormalisedAgain) {
  const at::Tensor scale = at::full({1, 1, 1, 1}, 1.0F / (255 * 0.25F));
  const at::Tensor shift = at::full({1, 1, 1, 1}, -2.0F);
  const at::Tensor images = at::full({1, 1, 8, 8}, 2.0F);  // white everywhere
  const at::Tensor turned = make_views(
      Views::rotation, images, at::full({1, 1}, std::numbers::pi / 4, at::kFloat), scale, shift);
  EXPECT_NEAR(turned[0][0][3][3].item<float>(), 2.0, 1e-5) << "white";
  EXPECT_NEAR(turned[0][0][0][0].item<float>(), -2.0, 1e-5) << "black, not the mean grey";
  const at::Tensor colour = at::full({1, 3, 2, 2}, 1.0F);
  const at::Tensor knobs = at::tensor({0.0F, 0.5F, 1.0F, 1.0F, 0.0F, 0.0F}).view({1, 6});
  // 1 is the pixel (1 + 2) * .25 = .75; half as bright .375, which is normalised to -.5.
  EXPECT_TRUE(at::allclose(make_views(Views::colour, colour, knobs, scale, shift),
                           at::full({1, 3, 2, 2}, -0.5F), 1e-4, 1e-5));
}

TEST(FedLsrViews, KeepTheTypeOfTheirImages) {
  const at::Tensor images = at::zeros({2, 3, 4, 4}, at::kBFloat16);
  const at::Tensor one = at::ones({1, 3, 1, 1});
  Stream stream(1, "views");
  EXPECT_EQ(make_views(Views::colour, images, draw_knobs(Views::colour, 2, stream), one, one)
                .scalar_type(),
            at::kBFloat16);
}

// spec: baselines 18
TEST(FedLsrViews, KnobsHaveTheStatedChancesAndRanges) {
  constexpr std::int64_t kCount = 20'000;
  Stream stream(7, "knobs");
  const at::Tensor knobs = draw_knobs(Views::colour, kCount, stream);
  const auto share = [&](const at::Tensor& mask) {
    return mask.to(at::kDouble).mean().item<double>();
  };
  EXPECT_NEAR(share(knobs.select(1, 0).eq(1)), .5, .02);
  const at::Tensor untouched = knobs.select(1, 1).eq(1);
  EXPECT_NEAR(share(untouched), .2, .02);
  EXPECT_TRUE(untouched.equal(knobs.select(1, 4).eq(0))) << "all jitters or none";
  EXPECT_NEAR(share(knobs.select(1, 5).eq(1)), .2, .02);
  for (std::int64_t column = 1; column <= 3; ++column) {
    EXPECT_NEAR(knobs.select(1, column).min().item<float>(), .2, .01);
    EXPECT_NEAR(knobs.select(1, column).max().item<float>(), 1.8, .01);
  }
  EXPECT_NEAR(knobs.select(1, 4).min().item<float>(), -.2, .01);
  EXPECT_NEAR(knobs.select(1, 4).max().item<float>(), .2, .01);
  const at::Tensor angles = draw_knobs(Views::rotation, kCount, stream);
  EXPECT_NEAR(angles.max().item<float>(), std::numbers::pi / 6, .01);
  EXPECT_NEAR(angles.min().item<float>(), -std::numbers::pi / 6, .01);
}

}  // namespace winnow::fedlsr::views_test
