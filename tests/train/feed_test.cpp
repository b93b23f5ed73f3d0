#include "winnow/train/feed.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "testing/support.h"

namespace winnow::feed_test {

at::Tensor index_of(const std::vector<std::int64_t>& samples) {
  return at::tensor(samples, at::kLong);
}

Jitter jitter_of(std::int64_t dy, std::int64_t dx, bool flip) {
  return at::tensor(std::vector<std::int64_t>{dy, dx, flip ? 1 : 0}, at::kLong).view({1, 3});
}

// Bytes that differ everywhere: 1, 2, 3, ...
at::Tensor counting_images(std::int64_t count, std::int64_t channels, std::int64_t height,
                           std::int64_t width) {
  return at::arange(1, count * channels * height * width + 1, at::kLong)
      .remainder(256)
      .to(at::kByte)
      .view({count, channels, height, width});
}

TEST(Feed, NormalisesEveryLevelPerChannel) {
  const at::Tensor plane = at::arange(256, at::kLong).to(at::kByte).view({1, 1, 16, 16});
  const Normalisation normalisation{{0.485, 0.25}, {0.229, 2.0}};
  const Feed feed(at::cat({plane, plane}, 1), normalisation, 0, at::kCPU);
  at::Tensor buffer;
  const at::Tensor image = feed.batch(index_of({0}), {}, buffer)[0];
  ASSERT_EQ(image.sizes(), (std::vector<std::int64_t>{2, 16, 16}));
  for (std::int64_t v = 0; v < 256; ++v) {
    for (std::int64_t c = 0; c < 2; ++c) {
      const auto channel = static_cast<std::size_t>(c);
      EXPECT_FLOAT_EQ(
          image[c][v / 16][v % 16].item<float>(),
          static_cast<float>((static_cast<double>(v) / 255.0 - normalisation.mean[channel]) /
                             normalisation.std[channel]));
    }
  }
}

TEST(Feed, GathersSamplesInTheOrderAsked) {
  const at::Tensor images = counting_images(4, 1, 2, 3);
  const Feed feed(images, bytes_as_they_are(), 0, at::kCPU);
  at::Tensor buffer;
  const at::Tensor batch = feed.batch(index_of({2, 0, 2}), {}, buffer);
  EXPECT_TRUE(at::equal(batch, images.index_select(0, index_of({2, 0, 2})).to(at::kFloat)));
  EXPECT_EQ(feed.channels(), 1);
  EXPECT_EQ(feed.height(), 2);
  EXPECT_EQ(feed.width(), 3);
}

// Pads a plane with black, cuts the window at (dy, dx), then mirrors it.
float reference_pixel(const at::Tensor& plane, std::int64_t y, std::int64_t x, std::int64_t dy,
                      std::int64_t dx, bool flip) {
  const at::Tensor padded =
      at::constant_pad_nd(plane, {kCropPadding, kCropPadding, kCropPadding, kCropPadding}, 0);
  at::Tensor window = padded.narrow(0, dy, plane.size(0)).narrow(1, dx, plane.size(1));
  window = flip ? window.flip(1) : window;
  return window[y][x].item<float>();
}

// spec: label-noise 0.5
TEST(Feed, CropsAndFlipsLikeTheReferenceForEveryJitter) {
  const at::Tensor images = counting_images(2, 2, 3, 5);
  const Feed feed(images, bytes_as_they_are(2), 0, at::kCPU);
  at::Tensor buffer;
  for (std::int64_t dy = 0; dy <= 2 * kCropPadding; ++dy) {
    for (std::int64_t dx = 0; dx <= 2 * kCropPadding; ++dx) {
      for (const bool flip : {false, true}) {
        const at::Tensor made = feed.batch(index_of({1}), jitter_of(dy, dx, flip), buffer)[0];
        for (std::int64_t i = 0; i < made.numel(); ++i) {
          const std::int64_t c = i / 15;
          const std::int64_t y = i / 5 % 3;
          const std::int64_t x = i % 5;
          ASSERT_EQ(made[c][y][x].item<float>(), reference_pixel(images[1][c], y, x, dy, dx, flip))
              << "dy " << dy << " dx " << dx << " flip " << flip << " at " << c << "," << y << ","
              << x;
        }
      }
    }
  }
}

TEST(Feed, GivesEverySampleItsOwnJitter) {
  const at::Tensor images = counting_images(1, 1, 3, 3);
  const Feed feed(images, bytes_as_they_are(), 0, at::kCPU);
  at::Tensor buffer;
  const Jitter both = at::cat({jitter_of(4, 4, false), jitter_of(4, 4, true)});
  const at::Tensor batch = feed.batch(index_of({0, 0}), both, buffer);
  EXPECT_EQ(values_of(batch[0]), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(values_of(batch[1]), (std::vector<float>{3, 2, 1, 6, 5, 4, 9, 8, 7}));
}

// spec: label-noise 0.5: black before normalisation, so the border is -mean/std and not 0
TEST(Feed, PadsWithBlackBeforeNormalising) {
  const Feed feed(at::full({1, 1, 6, 6}, 255, at::kByte), {{0.5}, {0.25}}, 0, at::kCPU);
  at::Tensor buffer;
  const at::Tensor image = feed.batch(index_of({0}), jitter_of(0, 3, false), buffer)[0][0];
  EXPECT_FLOAT_EQ(image[0][0].item<float>(), -2.0F);
  EXPECT_FLOAT_EQ(image[3][5].item<float>(), -2.0F);
  EXPECT_FLOAT_EQ(image[5][0].item<float>(), -2.0F);
  EXPECT_FLOAT_EQ(image[4][1].item<float>(), 2.0F);
  EXPECT_FLOAT_EQ(image[5][5].item<float>(), 2.0F);
}

// A crop of 224 out of 256 in small: everything that a jitter can show lies inside the image.
TEST(Feed, CropsInsideLargerImages) {
  const at::Tensor images = counting_images(2, 2, 7, 7);
  const Feed feed(images, bytes_as_they_are(2), 0, at::kCPU, 3);
  EXPECT_EQ(feed.height(), 3);
  EXPECT_EQ(feed.width(), 3);
  EXPECT_EQ(feed.places(), 5);
  at::Tensor buffer;
  for (std::int64_t dy = 0; dy < feed.places(); ++dy) {
    for (std::int64_t dx = 0; dx < feed.places(); ++dx) {
      const at::Tensor window = images[1].narrow(1, dy, 3).narrow(2, dx, 3).to(at::kFloat);
      const at::Tensor made = feed.batch(index_of({1}), jitter_of(dy, dx, false), buffer)[0];
      EXPECT_TRUE(at::equal(made, window)) << dy << " " << dx;
      const at::Tensor mirrored = feed.batch(index_of({1}), jitter_of(dy, dx, true), buffer)[0];
      EXPECT_TRUE(at::equal(mirrored, window.flip(2))) << dy << " " << dx;
    }
  }
  const at::Tensor whole = feed.batch(index_of({1}), {}, buffer)[0];
  const at::Tensor expected =
      at::upsample_bilinear2d(images.narrow(0, 1, 1).to(at::kFloat), {3, 3}, false)[0];
  EXPECT_TRUE(at::equal(whole, expected)) << "without jitter the whole image is shown, smaller";
}

TEST(Feed, ResizesBetweenPixelCentres) {
  const at::Tensor images =
      at::tensor(std::vector<std::uint8_t>{0, 100, 40, 200}, at::kByte).view({1, 1, 2, 2});
  const Feed feed(images, bytes_as_they_are(), 4, at::kCPU);
  EXPECT_EQ(feed.height(), 4);
  EXPECT_EQ(feed.width(), 4);
  at::Tensor buffer;
  const at::Tensor made = feed.batch(index_of({0, 0}), {}, buffer);
  ASSERT_EQ(made.sizes(), (std::vector<std::int64_t>{2, 1, 4, 4}));
  // A pixel of the double size lies a quarter of the way from one centre to the next.
  const std::vector<float> expected{0,  25,     75,      100,  //
                                    10, 38.75F, 96.25F,  125,  //
                                    30, 66.25F, 138.75F, 175,  //
                                    40, 80,     160,     200};
  const std::vector<float> values = values_of(made[1]);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], 1e-4) << i;
  }
}

TEST(Feed, ResizesToASquareAfterCropping) {
  const at::Tensor images = counting_images(1, 1, 2, 4);
  const Feed feed(images, bytes_as_they_are(), 8, at::kCPU);
  at::Tensor buffer;
  EXPECT_EQ(feed.batch(index_of({0}), {}, buffer).sizes(), (std::vector<std::int64_t>{1, 1, 8, 8}));
  // One row down: the second row of the image is now the first, below it all is black.
  const at::Tensor moved = feed.batch(index_of({0}), jitter_of(5, 4, false), buffer)[0][0];
  EXPECT_NEAR(moved[0][0].item<float>(), 5.0F, 1e-5);
  EXPECT_NEAR(moved[7][7].item<float>(), 0.0F, 1e-5);
}

TEST(Feed, ReusesTheBufferAndOnlyWhereItFits) {
  const Feed feed(counting_images(4, 1, 4, 2), bytes_as_they_are(), 0, at::kCPU);
  const Feed other(counting_images(4, 1, 2, 4), bytes_as_they_are(), 0, at::kCPU);
  const Feed larger(counting_images(4, 2, 3, 3), bytes_as_they_are(2), 0, at::kCPU);
  at::Tensor buffer;
  const at::Tensor full = feed.batch(index_of({0, 1, 2}), {}, buffer);
  const at::Tensor part = feed.batch(index_of({3}), {}, buffer);
  EXPECT_EQ(part.data_ptr(), full.data_ptr());
  EXPECT_EQ(part.size(0), 1);
  const at::Tensor wide = other.batch(index_of({0}), {}, buffer);
  ASSERT_EQ(wide.sizes(), (std::vector<std::int64_t>{1, 1, 2, 4}));
  EXPECT_EQ(values_of(wide), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(larger.batch(index_of({1}), {}, buffer).sizes(),
            (std::vector<std::int64_t>{1, 2, 3, 3}));
}

TEST(Feed, RefusesAWrongNumberOfMeans) {
  const at::Tensor images = counting_images(1, 3, 2, 2);
  EXPECT_EQ(error_text([&] {
              const Feed feed(images, {{0.5}, {0.5, 0.5, 0.5}}, 0, at::kCPU);
            }),
            "data.mean and data.std have 1 and 3 values, the images 3 channels");
  EXPECT_EQ(error_text([&] {
              const Feed feed(images, {{0, 0, 0}, {1, 1}}, 0, at::kCPU);
            }),
            "data.mean and data.std have 3 and 2 values, the images 3 channels");
  EXPECT_EQ(error_kind([&] { const Feed feed(images, {}, 0, at::kCPU); }), ErrorKind::experiment);
}

}  // namespace winnow::feed_test
