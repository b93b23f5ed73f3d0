#include "winnow/stats/lid.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/random.h"

namespace winnow::lid_test {

using ::testing::Each;

void expect_near(const std::vector<double>& values, const std::vector<double>& expected,
                 double tolerance = 1e-5) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance) << "at " << i;
  }
}

std::string error_text(const std::vector<float>& points, std::size_t dims, std::size_t k) {
  try {
    lid(points, dims, k);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    return error.what();
  }
  return "no error";
}

std::vector<float> random_rows(std::uint64_t seed, std::size_t rows, std::size_t dims) {
  Stream stream(seed, "lid test");
  std::vector<float> points(rows * dims);
  for (float& value : points) {
    value = static_cast<float>(stream.uniform());
  }
  return points;
}

// The formula word for word (spec: label-noise A.3).
double plain_lid(const std::vector<float>& points, std::size_t dims, std::size_t k,
                 std::size_t row) {
  std::vector<double> distances;
  for (std::size_t j = 0; j < points.size() / dims; ++j) {
    double square = 0.0;
    for (std::size_t d = 0; d < dims; ++d) {
      square += std::pow(
          static_cast<double>(points[row * dims + d]) - static_cast<double>(points[j * dims + d]),
          2);
    }
    distances.push_back(std::sqrt(square));
  }
  std::ranges::sort(distances);
  const std::size_t kept = std::min(k, distances.size() - 1);
  double sum = 0.0;
  for (std::size_t j = 1; j <= kept; ++j) {
    sum += std::log(distances[j] / (distances[kept] + 1e-6));
  }
  return -static_cast<double>(k) / (sum + 1e-6);
}

// spec: label-noise A.7 #1
TEST(Lid, MatchesTheWorkedExampleInThePlane) {
  const std::vector<float> points{0, 0, 1, 0, 0, 2, 3, 0, 0, 4, 5, 5};
  expect_near(lid(points, 2, 3),
              {1.99457821, 3.27406878, 13.44423977, 3.88003089, 3.97998582, 14.04074638});
  EXPECT_NEAR(mean_lid(points, 2, 3), 6.76894164, 1e-6);
}

// spec: label-noise A.7 #2
TEST(Lid, MatchesTheWorkedExampleOnALine) {
  const std::vector<float> points{0, 1, 2, 3, 4, 5};
  expect_near(lid(points, 1, 3),
              {1.99457821, 2.16404178, 2.16404178, 2.16404178, 2.16404178, 1.99457821});
  EXPECT_NEAR(mean_lid(points, 1, 3), 2.10755392, 1e-6);
}

// spec: label-noise A.7 #2
TEST(Lid, BarelyChangesWithTheScale) {
  const std::vector<float> points{0, 1, 2, 3, 4, 5};
  const std::vector<float> large{0, 1000, 2000, 3000, 4000, 5000};
  EXPECT_NEAR(mean_lid(large, 1, 3), mean_lid(points, 1, 3), 1e-5);
}

// spec: label-noise A.7 #2
TEST(Lid, FollowsTheOrderOfTheRowsBitForBit) {
  const std::vector<float> points = random_rows(1, 60, 3);
  const std::vector<double> straight = lid(points, 3, 7);
  Stream stream(1, "lid test order");
  const std::vector<std::int64_t> order = stream.permutation(60);
  std::vector<float> moved;
  for (const std::int64_t i : order) {
    for (std::size_t d = 0; d < 3; ++d) {
      moved.push_back(points[static_cast<std::size_t>(i) * 3 + d]);
    }
  }
  const std::vector<double> result = lid(moved, 3, 7);
  for (std::size_t i = 0; i < result.size(); ++i) {
    EXPECT_EQ(result[i], straight[static_cast<std::size_t>(order[i])]);
  }
}

// spec: label-noise A.7 #3
TEST(Lid, MatchesTheWorkedExampleOfSoftmaxRows) {
  const std::vector<float> rows{.9F,  .05F, .05F, .8F, .1F, .1F, .7F, .2F, .1F, .1F,  .8F,  .1F,
                                .05F, .9F,  .05F, .2F, .7F, .1F, .1F, .1F, .8F, .05F, .05F, .9F};
  EXPECT_NEAR(mean_lid(rows, 3, 3), 1.06889545, 1e-4);
}

// spec: label-noise A.7 #4
TEST(Lid, MatchesTheWorkedExampleWithTwentyNeighbours) {
  std::vector<float> points;
  for (int i = 0; i < 25; ++i) {
    points.push_back(static_cast<float>((i * i % 31) / 31.0));
    points.push_back(static_cast<float>((7 * i % 29) / 29.0));
  }
  const std::vector<double> result = lid(points, 2, 20);
  expect_near({result[0], result[1], result[2]}, {1.91009787, 1.74774789, 1.50824706});
  EXPECT_NEAR(mean_lid(points, 2, 20), 1.79933625, 1e-5);
}

// spec: label-noise A.7 #5
TEST(Lid, IsZeroForIdenticalRows) {
  const std::vector<float> twins{0, 0, 0, 0, 1, 0, 0, 1, 2, 2};
  const std::vector<double> result = lid(twins, 2, 3);
  expect_near(result, {0.0, 0.0, 4.32807812, 4.32807812, 6.38292861});
  EXPECT_EQ(result[0], 0.0);
  EXPECT_EQ(result[1], 0.0);
  EXPECT_THAT(lid(std::vector<float>(10, 0.25F), 2, 3), Each(0.0));
}

// spec: label-noise A.7 #5
TEST(Lid, KeepsTheNumeratorWithFewerNeighboursThanK) {
  const std::vector<float> points{0, 0, 1, 0, 0, 2, 3, 0};
  EXPECT_NEAR(mean_lid(points, 2, 20), 19.93346737, 1e-5);
  EXPECT_NEAR(mean_lid(points, 2, 20), 20.0 / 3.0 * mean_lid(points, 2, 3), 1e-9);
}

// spec: label-noise A.7 #5
TEST(Lid, IsHugeButFiniteForEquidistantNeighbours) {
  const std::vector<float> cross{0, 0, 1, 0, 0, 1, -1, 0, 0, -1};
  EXPECT_NEAR(lid(cross, 2, 4)[0], 1.3333e6, 100.0);
}

TEST(Lid, TellsApartTheSmallestDifferencesOfFloats) {
  const std::vector<float> points{0, 1e-40F, 2e-40F, 3e-40F};
  for (const double value : lid(points, 1, 3)) {
    EXPECT_GT(value, 0.0);
  }
}

TEST(Lid, AgreesWithThePlainFormulaOnRandomRows) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::size_t dims = 1 + seed % 11;
    const std::vector<float> points = random_rows(seed, 2 + 13 * seed, dims);
    const std::vector<double> result = lid(points, dims, 20);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const double expected = plain_lid(points, dims, 20, i);
      EXPECT_NEAR(result[i], expected, 1e-9 * std::abs(expected)) << "seed " << seed;
    }
  }
}

TEST(Lid, GrowsWithTheDimensionOfTheData) {
  const double line = mean_lid(random_rows(5, 1000, 1), 1, 20);
  const double cube = mean_lid(random_rows(5, 3000, 3), 3, 20);
  EXPECT_NEAR(line, 1.0, 0.2);
  EXPECT_NEAR(cube, 3.0, 0.5);
}

TEST(Lid, RefusesInputItCannotMeasure) {
  EXPECT_EQ(error_text({1, 2, 3}, 2, 3),
            "lid: 3 values, dims 2, k 3, expected whole rows and dims, k >= 1");
  EXPECT_EQ(error_text({1, 2}, 1, 0),
            "lid: 2 values, dims 1, k 0, expected whole rows and dims, k >= 1");
  EXPECT_EQ(error_text({1, 2}, 0, 1),
            "lid: 2 values, dims 0, k 1, expected whole rows and dims, k >= 1");
  EXPECT_EQ(error_text({}, 2, 3), "lid: 0 rows, expected at least 2");
  EXPECT_EQ(error_text({1, 2}, 2, 3), "lid: 1 rows, expected at least 2");
  EXPECT_EQ(error_text({1, std::nanf(""), 3}, 1, 3),
            "lid: value 1 of 3 is nan, expected finite values");
}

at::Tensor tensor_of(const std::vector<float>& points, std::int64_t dims) {
  return at::tensor(points, at::kFloat).view({-1, dims});
}

// Two rows are each other's only neighbour: the LID is huge and magnifies rounding.
TEST(MeanLid, OfATensorIsThatOfItsRows) {
  for (const std::size_t rows : {2, 15, 300}) {
    const std::vector<float> points = random_rows(rows, rows, 10);
    EXPECT_NEAR(mean_lid(tensor_of(points, 10), 20) / mean_lid(points, 10, 20), 1.0, 1e-8);
  }
}

TEST(MeanLid, OfATensorWithEqualRowsCountsThemAsZero) {
  std::vector<float> points = random_rows(1, 40, 3);
  std::copy_n(points.begin(), 6, points.begin() + 30);
  EXPECT_NEAR(mean_lid(tensor_of(points, 3), 5) / mean_lid(points, 3, 5), 1.0, 1e-10);
}

// More distances than are computed at once.
TEST(MeanLid, OfALargeTensorIsComputedInBlocks) {
  const std::vector<float> points = random_rows(2, 4500, 2);
  EXPECT_NEAR(mean_lid(tensor_of(points, 2), 3) / mean_lid(points, 2, 3), 1.0, 1e-9);
}

TEST(MeanLid, OfATensorNeedsTwoRows) {
  try {
    mean_lid(at::zeros({1, 3}), 5);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "lid: 1 rows, k 5, expected at least 2 rows and k >= 1");
  }
}

}  // namespace winnow::lid_test
