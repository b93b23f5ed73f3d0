#include "winnow/data/fit.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "testing/support.h"

namespace winnow::fit_test {

TEST(FitImages, ImagesThatFitStayAsTheyAre) {
  const at::Tensor images = at::arange(24, at::kByte).view({2, 3, 2, 2});
  EXPECT_TRUE(fit_images(images, 3, 2, 2).equal(images));
}

TEST(FitImages, ColourBecomesGreyByItsBrightness) {
  at::Tensor images = at::zeros({1, 3, 1, 1}, at::kByte);
  images[0][0] = 200;
  images[0][1] = 100;
  images[0][2] = 10;
  EXPECT_EQ(fit_images(images, 1, 1, 1).item<int>(), 120) << "59.8 + 58.7 + 1.14";
}

TEST(FitImages, GreyBecomesThreeEqualChannels) {
  const at::Tensor images = at::arange(8, at::kByte).view({2, 1, 2, 2});
  const at::Tensor colour = fit_images(images, 3, 2, 2);
  EXPECT_EQ(colour.sizes(), (std::vector<std::int64_t>{2, 3, 2, 2}));
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    EXPECT_TRUE(colour.select(1, channel).equal(images.select(1, 0)));
  }
}

TEST(FitImages, TheSizeIsChangedBilinearly) {
  const at::Tensor images = at::tensor({0, 100}, at::kByte).view({1, 1, 1, 2});
  EXPECT_EQ(values_of(fit_images(images, 1, 1, 4)), (std::vector<float>{0, 25, 75, 100}));
  EXPECT_EQ(fit_images(images, 3, 8, 8).sizes(), (std::vector<std::int64_t>{1, 3, 8, 8}));
}

TEST(FitImages, OtherNumbersOfChannelsAreRefused) {
  EXPECT_EQ(
      error_text([] {
        fit_images(at::zeros({1, 4, 2, 2}, at::kByte), 3, 2, 2);
      }),
      "images with 4 channels cannot be combined with images with 3 | only grey (1) and colour (3) "
      "images can be combined");
}

}  // namespace winnow::fit_test
