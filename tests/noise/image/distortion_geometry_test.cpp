#include "winnow/noise/image/distortion_geometry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "noise/image/distortion_pictures.h"

namespace winnow::distortion::distortion_geometry_test {

using testing_pictures::natural;
using testing_pictures::Picture;

// spec: input-noise D16
TEST(Elastic, ScaleMatchesTheListAtThirtyTwo) {
  const PerSeverity<ElasticScale> expected{
      {{0, 0, 2.56}, {1.6, 6.4, 2.24}, {2.56, 1.92, 1.92}, {3.2, 1.28, 1.6}, {3.2, .96, .96}}};
  for (int severity = 1; severity <= 5; ++severity) {
    const ElasticScale scale = elastic_scale(32, severity);
    EXPECT_NEAR(scale.alpha, at_severity(expected, severity).alpha, 1e-12);
    EXPECT_NEAR(scale.sigma, at_severity(expected, severity).sigma, 1e-12);
    EXPECT_NEAR(scale.jitter, at_severity(expected, severity).jitter, 1e-12);
    EXPECT_NEAR(elastic_scale(64, severity).jitter, 2.0 * scale.jitter, 1e-12);
  }
}

TEST(Affine, SendsThreePointsToTheirPartners) {
  const std::array<Point, 3> from{{{26, 26}, {26, 6}, {6, 6}}};
  const std::array<Point, 3> to{{{27.5, 25}, {24, 7.25}, {5, 4}}};
  const Affine map = affine_through(from, to);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(map(from[i]).x, to[i].x, 1e-12);
    EXPECT_NEAR(map(from[i]).y, to[i].y, 1e-12);
  }
  const Affine same = affine_through(from, from);
  EXPECT_NEAR(same({3, 4}).x, 3, 1e-12);
  EXPECT_NEAR(same({3, 4}).y, 4, 1e-12);
}

TEST(Elastic, KeepsConstantsAndMovesPicturesALittle) {
  for (int severity = 1; severity <= 5; ++severity) {
    Picture constant = testing_pictures::flat(3, 32, 90);
    Stream stream(1, "elastic");
    elastic(constant.view(), severity, stream);
    EXPECT_EQ(constant.bytes, testing_pictures::flat(3, 32, 90).bytes);

    // A ramp shows how far every pixel has come from its place.
    Picture ramp(1, 32, 32);
    for (std::int64_t y = 0; y < 32; ++y) {
      for (std::int64_t x = 0; x < 32; ++x) {
        ramp.at(0, y, x) = static_cast<std::uint8_t>(8 * x);
      }
    }
    elastic(ramp.view(), severity, stream);
    double moved = 0.0;
    for (std::int64_t y = 8; y < 24; ++y) {
      for (std::int64_t x = 8; x < 24; ++x) {
        moved = std::max(moved, std::abs(ramp.at(0, y, x) / 8.0 - static_cast<double>(x)));
      }
    }
    EXPECT_GT(moved, .1) << severity;
    EXPECT_LT(moved, 8.0) << severity;
  }
}

TEST(Elastic, MovesAllChannelsTogether) {
  Picture colour(3, 32, 32);
  const Picture grey = natural(1, 32);
  for (std::size_t i = 0; i < colour.bytes.size(); ++i) {
    colour.bytes[i] = grey.bytes[i % 1024];
  }
  Stream stream(1, "elastic");
  elastic(colour.view(), 5, stream);
  for (std::size_t i = 0; i < 1024; ++i) {
    EXPECT_EQ(colour.bytes[i], colour.bytes[i + 1024]);
    EXPECT_EQ(colour.bytes[i], colour.bytes[i + 2048]);
  }
}

// spec: input-noise D17
TEST(Pixelate, ReducesToTheListedSides) {
  constexpr PerSeverity<std::int64_t> kSides{30, 28, 27, 24, 20};
  for (int severity = 1; severity <= 5; ++severity) {
    EXPECT_EQ(pixelated_length(32, severity), at_severity(kSides, severity));
    Picture picture(1, 32, 32);
    for (std::int64_t y = 0; y < 32; ++y) {
      for (std::int64_t x = 0; x < 32; ++x) {
        picture.at(0, y, x) = static_cast<std::uint8_t>(8 * x);
      }
    }
    pixelate(picture.view(), severity);
    const std::set<int> columns(picture.bytes.begin(), picture.bytes.begin() + 32);
    EXPECT_EQ(static_cast<std::int64_t>(columns.size()), at_severity(kSides, severity));
  }
  EXPECT_EQ(pixelated_length(1, 5), 1);
}

// spec: input-noise C8, enlarged again: output i shows small pixel int((i + 1/2) * 20/32)
TEST(Pixelate, ShowsTheWorkedRampAgain) {
  Picture picture(1, 32, 32);
  for (std::int64_t y = 0; y < 32; ++y) {
    for (std::int64_t x = 0; x < 32; ++x) {
      picture.at(0, y, x) = static_cast<std::uint8_t>(8 * x);
    }
  }
  pixelate(picture.view(), 5);
  const std::array<int, 20> small{4,   16,  28,  40,  52,  68,  80,  92,  104, 116,
                                  132, 144, 156, 168, 180, 196, 208, 220, 232, 244};
  for (std::int64_t x = 0; x < 32; ++x) {
    const auto from = static_cast<std::size_t>((static_cast<double>(x) + .5) * 20.0 / 32.0);
    EXPECT_EQ(picture.at(0, 17, x), small[from]) << x;
  }
}

}  // namespace winnow::distortion::distortion_geometry_test
