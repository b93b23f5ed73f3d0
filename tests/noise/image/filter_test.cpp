#include "winnow/noise/image/filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "winnow/noise/image/filter_edge.h"
#include "winnow/noise/image/filter_motion.h"
#include "winnow/noise/image/filter_resize.h"

namespace winnow::distortion::filter_test {

using ::testing::ElementsAre;

TEST(Border, FoldsAnyIndexBack) {
  const auto folded = [](Border border) {
    std::vector<std::int64_t> out;
    for (std::int64_t i = -7; i <= 9; ++i) {
      out.push_back(border_index(i, 3, border));
    }
    return out;
  };
  EXPECT_THAT(folded(Border::edge), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 2, 2));
  EXPECT_THAT(folded(Border::reflect_101),
              ElementsAre(1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1));
  EXPECT_THAT(folded(Border::reflect),
              ElementsAre(0, 0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1, 2, 2));
  for (const Border border : {Border::edge, Border::reflect_101, Border::reflect}) {
    EXPECT_EQ(border_index(-4, 1, border), 0);
    EXPECT_EQ(border_index(4, 1, border), 0);
  }
}

// spec: input-noise D5
TEST(GaussianKernel, HasTheWorkedWeights) {
  const auto expect_half = [](double sigma, const std::vector<double>& half) {
    const std::vector<float> kernel = gaussian_kernel(sigma);
    ASSERT_EQ(kernel.size(), 2 * half.size() - 1);
    for (std::size_t i = 0; i < half.size(); ++i) {
      EXPECT_NEAR(kernel[half.size() - 1 + i], half[i], 1e-6) << sigma << " " << i;
      EXPECT_EQ(kernel[half.size() - 1 + i], kernel[half.size() - 1 - i]);
    }
  };
  expect_half(.4, {.919218, .040388, .000003});
  expect_half(.7, {.569846, .205400, .009619, .000059});
  expect_half(1.0, {.398943, .241971, .053991, .004432, .000134});
}

TEST(GaussianKernel, RadiusFollowsTheTruncationAndZeroIsTheIdentity) {
  EXPECT_THAT(gaussian_kernel(.05), ElementsAre(1.0F));
  EXPECT_THAT(gaussian_kernel(0.0), ElementsAre(1.0F));
  EXPECT_EQ(gaussian_kernel(.25).size(), 3U);
  EXPECT_EQ(gaussian_kernel(6.4, 3.0).size(), 39U);
}

// spec: input-noise C3
TEST(Kernels, SumToOne) {
  for (const double sigma : {.25, .4, .5, .6, .7, .8, 1.0, 1.28, 6.4}) {
    const std::vector<float> kernel = gaussian_kernel(sigma);
    EXPECT_NEAR(std::accumulate(kernel.begin(), kernel.end(), 0.0), 1.0, 1e-6);
  }
  for (int severity = 1; severity <= 5; ++severity) {
    const std::vector<double> kernel = defocus_kernel(severity);
    EXPECT_NEAR(std::accumulate(kernel.begin(), kernel.end(), 0.0), 1.0, 1e-12);
  }
  const std::vector<double> motion = motion_kernel(14, 12);
  EXPECT_NEAR(std::accumulate(motion.begin(), motion.end(), 0.0), 1.0, 1e-12);
}

TEST(GaussianFilter, SpreadsAnImpulseSeparably) {
  Plane plane(9, 9);
  plane.row(4)[4] = 1.0F;
  const Plane out = gaussian_filter(plane, 1.0);
  EXPECT_NEAR(out.row(4)[4], .398943 * .398943, 1e-5);
  EXPECT_NEAR(out.row(4)[5], .398943 * .241971, 1e-5);
  EXPECT_NEAR(out.row(3)[5], .241971 * .241971, 1e-5);
  EXPECT_NEAR(out.row(2)[4], .398943 * .053991, 1e-5);
}

TEST(GaussianFilter, RepeatsTheEdge) {
  Plane plane(1, 8);
  plane.row(0)[0] = 1.0F;
  const Plane out = gaussian_filter(plane, 1.0);
  EXPECT_NEAR(out.row(0)[0], .398943 + .241971 + .053991 + .004432 + .000134, 1e-5);
}

// spec: input-noise D6
TEST(DefocusKernel, HasTheWorkedWeights) {
  const auto cell = [](int severity, std::int64_t y, std::int64_t x) {
    return defocus_kernel(severity)[static_cast<std::size_t>((y + 8) * 17 + x + 8)];
  };
  const std::array<std::array<double, 3>, 3> worked{
      {{.844973, .037126, .001631}, {.619347, .083820, .011344}, {.445213, .111015, .027682}}};
  for (int severity = 1; severity <= 3; ++severity) {
    const auto& expected = worked[static_cast<std::size_t>(severity - 1)];
    EXPECT_NEAR(cell(severity, 0, 0), expected[0], 1e-6);
    EXPECT_NEAR(cell(severity, 0, 1), expected[1], 1e-6);
    EXPECT_NEAR(cell(severity, -1, 0), expected[1], 1e-6);
    EXPECT_NEAR(cell(severity, 1, 1), expected[2], 1e-6);
    EXPECT_EQ(cell(severity, 0, 2), 0.0);
  }
  for (const auto& [y, x] : {std::pair{0, 0}, {0, 1}, {1, 0}, {0, -1}, {-1, 0}}) {
    EXPECT_NEAR(cell(4, y, x), .2, 5e-6);
  }
  EXPECT_NEAR(cell(4, 1, 1), 0.0, 5e-6);
  for (int y = -1; y <= 1; ++y) {
    for (int x = -1; x <= 1; ++x) {
      EXPECT_NEAR(cell(5, y, x), 1.0 / 9.0, 1e-12);
    }
  }
  EXPECT_EQ(defocus_taps(5).size(), 9U);
}

// spec: input-noise D8
TEST(MotionKernel, HasTheWorkedWeights) {
  const std::vector<double> mild = motion_kernel(6, 1);
  EXPECT_EQ(mild.size(), 13U);
  const std::vector<double> worked_mild{.570348, .345934, .077188, .006336, .000191};
  for (std::size_t i = 0; i < worked_mild.size(); ++i) {
    EXPECT_NEAR(mild[i], worked_mild[i], 1e-6) << i;
  }
  const std::vector<double> strong = motion_kernel(9, 2.5);
  EXPECT_EQ(strong.size(), 19U);
  const std::vector<double> worked_strong{.275233, .254072, .199860, .133970, .076525, .037249};
  for (std::size_t i = 0; i < worked_strong.size(); ++i) {
    EXPECT_NEAR(strong[i], worked_strong[i], 1e-6) << i;
  }
}

TEST(MotionOffsets, FollowTheWorkedLines) {
  const std::vector<MotionOffset> at_30{{0, 0}, {1, 0}, {2, 1}, {3, 1}, {3, 2}, {4, 2}};
  const std::vector<MotionOffset> at_minus_45{{0, 0}, {1, -1}, {1, -1}, {2, -2}, {3, -3}, {4, -4}};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(motion_offset(static_cast<std::int64_t>(i), 30.0), at_30[i]) << i;
    EXPECT_EQ(motion_offset(static_cast<std::int64_t>(i), -45.0), at_minus_45[i]) << i;
  }
}

// spec: input-noise C3
TEST(MotionBlur, SmearsAnImpulseToOneSideOnly) {
  Plane plane(1, 17);
  plane.row(0)[8] = 1.0F;
  const Plane out = correlate(plane, motion_taps(6, 1, 0.0), Border::edge);
  EXPECT_NEAR(out.row(0)[8], .570348, 1e-6);
  EXPECT_NEAR(out.row(0)[7], .345934, 1e-6);
  EXPECT_NEAR(out.row(0)[6], .077188, 1e-6);
  for (std::int64_t x = 9; x < 17; ++x) {
    EXPECT_EQ(out.row(0)[x], 0.0F);
  }
}

// spec: input-noise D9
TEST(Zoom, GeometryMatchesTheWorkedSizes) {
  const std::vector<double> factors = zoom_factors(5);
  const auto at = [&factors](std::size_t hundredths) {
    return zoom_geometry(32, factors[hundredths]);
  };
  EXPECT_EQ(at(0), (ZoomGeometry{32, 0, 32, 0}));
  EXPECT_EQ(at(2), (ZoomGeometry{32, 0, 33, 0}));
  EXPECT_EQ(at(4), (ZoomGeometry{31, 0, 32, 0}));
  EXPECT_EQ(at(7), (ZoomGeometry{30, 1, 32, 0}));
  EXPECT_EQ(at(11), (ZoomGeometry{29, 1, 32, 0}));
  EXPECT_EQ(at(15), (ZoomGeometry{28, 2, 32, 0}));
  EXPECT_EQ(at(20), (ZoomGeometry{27, 2, 32, 0}));
  EXPECT_EQ(at(25), (ZoomGeometry{26, 3, 33, 0}));
  for (const double factor : factors) {
    EXPECT_EQ(zoom_geometry(32, factor).cut, 0) << factor;
  }
}

// spec: input-noise D10
TEST(Zoom, GeometryOfSnowMatchesTheWorkedSizes) {
  EXPECT_EQ(zoom_geometry(32, 1.0), (ZoomGeometry{32, 0, 32, 0}));
  EXPECT_EQ(zoom_geometry(32, 1.75), (ZoomGeometry{19, 6, 33, 0}));
  EXPECT_EQ(zoom_geometry(32, 2.25), (ZoomGeometry{15, 8, 34, 1}));
  EXPECT_EQ(zoom_geometry(32, 1.25), (ZoomGeometry{26, 3, 32, 0}));
}

TEST(Zoom, FactorsCountAsListed) {
  const std::array<std::pair<std::size_t, double>, 5> expected{
      {{7, 1.06}, {12, 1.11}, {16, 1.15}, {21, 1.20}, {26, 1.25}}};
  for (int severity = 1; severity <= 5; ++severity) {
    const std::vector<double> factors = zoom_factors(severity);
    EXPECT_EQ(factors.size(), at_severity(expected, severity).first);
    EXPECT_EQ(factors.front(), 1.0);
    EXPECT_NEAR(factors.back(), at_severity(expected, severity).second, 1e-12);
  }
}

TEST(Zoom, OneIsTheIdentityAndARampIsStretchedWithCornersAligned) {
  Plane ramp(32, 32);
  for (std::int64_t y = 0; y < 32; ++y) {
    for (std::int64_t x = 0; x < 32; ++x) {
      ramp.row(y)[x] = static_cast<float>(x);
    }
  }
  EXPECT_EQ(zoom(ramp, 1.0).values, ramp.values);
  const Plane big = zoom(ramp, 2.25);  // crop 15 at 8 to 34 places, cut 1
  for (std::int64_t x = 0; x < 32; ++x) {
    EXPECT_NEAR(big.row(5)[x], 8.0 + static_cast<double>(x + 1) * 14.0 / 33.0, 1e-4) << x;
  }
}

// spec: input-noise C8
TEST(BoxResize, ReducesTheWorkedRamp) {
  std::vector<std::uint8_t> ramp(32);
  for (std::size_t j = 0; j < 32; ++j) {
    ramp[j] = static_cast<std::uint8_t>(8 * j);
  }
  EXPECT_THAT(resize_box(ramp, 1, 32, 1, 20),
              ElementsAre(4, 16, 28, 40, 52, 68, 80, 92, 104, 116, 132, 144, 156, 168, 180, 196,
                          208, 220, 232, 244));
  EXPECT_EQ(resize_box(ramp, 32, 1, 20, 1), resize_box(ramp, 1, 32, 1, 20));
}

TEST(BoxResize, RoundsHalfUpAfterEachPassAndEnlargesByCopying) {
  const std::vector<std::uint8_t> bytes{0, 1, 0, 0};  // across: 1 (from .5), 0; down: 1 (from .5)
  EXPECT_THAT(resize_box(bytes, 2, 2, 1, 1), ElementsAre(1));
  const std::vector<std::uint8_t> two{10, 20};
  EXPECT_THAT(resize_box(two, 1, 2, 1, 4), ElementsAre(10, 10, 20, 20));
}

TEST(BilinearResize, HalvesByAveragingAndKeepsTheEdge) {
  Plane plane(1, 4);
  plane.values = {0.0F, 1.0F, 2.0F, 3.0F};
  EXPECT_THAT(resize_bilinear(plane, 1, 2).values, ElementsAre(0.5F, 2.5F));
  EXPECT_THAT(resize_bilinear(plane, 1, 8).values,
              ElementsAre(0.0F, 0.25F, 0.75F, 1.25F, 1.75F, 2.25F, 2.75F, 3.0F));
}

GreyImage step_image(std::uint8_t left, std::uint8_t right) {
  GreyImage image(8, 8);
  for (std::size_t i = 0; i < 64; ++i) {
    image.values[i] = i % 8 < 4 ? left : right;
  }
  return image;
}

// spec: input-noise D19
TEST(Canny, FindsAStepOnce) {
  // Both columns beside the step have magnitude 4 * 50 = 200 > 150; the right one is not greater
  // than its left neighbour.
  const GreyImage edges = canny(step_image(100, 150), 50, 150);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(edges.values[i], i % 8 == 3 ? 255 : 0) << i;
  }
}

TEST(Canny, DropsWeakEdgesThatTouchNoStrongOne) {
  const GreyImage faint = canny(step_image(100, 130), 50, 150);  // magnitude 120: weak
  EXPECT_EQ(std::count(faint.values.begin(), faint.values.end(), 255), 0);
  GreyImage mixed = step_image(100, 130);
  for (std::size_t i = 4; i < 32; i += 8) {
    std::fill_n(mixed.values.begin() + static_cast<std::ptrdiff_t>(i), 4, std::uint8_t{160});
  }
  const GreyImage joined = canny(mixed, 50, 150);
  EXPECT_EQ(joined.values[7 * 8 + 3], 255);  // the weak end is pulled in by the strong upper half
  EXPECT_EQ(joined.values[0 * 8 + 3], 255);
}

TEST(Canny, FindsADiagonal) {
  GreyImage image(9, 9);
  for (std::int64_t y = 0; y < 9; ++y) {
    for (std::int64_t x = 0; x < 9; ++x) {
      image.values[static_cast<std::size_t>(y * 9 + x)] = x + y < 8 ? 0 : (x + y == 8 ? 100 : 200);
    }
  }
  const GreyImage edges = canny(image, 50, 150);
  for (std::int64_t i = 2; i < 7; ++i) {
    EXPECT_EQ(edges.values[static_cast<std::size_t>((8 - i) * 9 + i)], 255) << i;
    EXPECT_EQ(edges.values[static_cast<std::size_t>((8 - i) * 9 + i - 2)], 0) << i;
  }
}

TEST(ChamferDistance, UsesTheThreeSteps) {
  GreyImage edges(7, 7);
  edges.values[3 * 7 + 3] = 255;
  const Plane distance = chamfer_distance(edges);
  EXPECT_FLOAT_EQ(distance.row(3)[3], 0.0F);
  EXPECT_FLOAT_EQ(distance.row(3)[5], 2.0F);
  EXPECT_FLOAT_EQ(distance.row(4)[4], 1.4F);
  EXPECT_FLOAT_EQ(distance.row(2)[2], 1.4F);
  EXPECT_FLOAT_EQ(distance.row(2)[5], 2.1969F);
  EXPECT_FLOAT_EQ(distance.row(5)[4], 2.1969F);
  EXPECT_FLOAT_EQ(distance.row(0)[0], 4.2F);
  EXPECT_FLOAT_EQ(distance.row(5)[0], 3.5969F);
  EXPECT_GT(chamfer_distance(GreyImage(3, 3)).values[0], 1e5F);
}

TEST(Equalise, SkipsTheFirstOccupiedLevel) {
  std::vector<std::uint8_t> values{5, 5, 7, 7, 7, 9};  // 4 of 6 after the first: 3/4 and 4/4
  equalise(values);
  EXPECT_THAT(values, ElementsAre(0, 0, 191, 191, 191, 255));
  std::vector<std::uint8_t> constant{20, 20, 20};
  equalise(constant);
  EXPECT_THAT(constant, ElementsAre(20, 20, 20));
}

}  // namespace winnow::distortion::filter_test
