#include "winnow/stats/vector_mixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "winnow/base/error.h"
#include "winnow/base/random.h"

namespace winnow::vector_mixture_test {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;

// spec: rivals 1.2
TEST(CleanPosteriors, AreTheWorkedNumbers) {
  const MixtureParameters filter{{.175, .85}, {.0175, .07}, {.5, .5}};
  EXPECT_THAT(clean_posteriors(std::vector<double>{.1, .5, .6, 1.0}, filter),
              ElementsAre(DoubleNear(.989546, 1e-6), DoubleNear(.190046, 1e-6),
                          DoubleNear(.017617, 1e-6), DoubleNear(0.0, 1e-6)));
}

TEST(MixtureFromAStart, EndsWhereTheFitFromTwoMeansDoes) {
  Stream stream(3, "mixture from");
  std::vector<double> values;
  for (int i = 0; i < 400; ++i) {
    values.push_back(i % 4 == 0 ? .8 + .05 * stream.normal() : .2 + .05 * stream.normal());
  }
  const Mixture fresh = gmm2(values, {.tol = 1e-9});
  const Mixture going_on = gmm2_from(values, {{.1, .9}, {.05, .05}, {.5, .5}}, {.tol = 1e-9});
  for (std::size_t g = 0; g < 2; ++g) {
    EXPECT_NEAR(going_on.means[g], fresh.means[g], 1e-4);
    EXPECT_NEAR(going_on.variances[g], fresh.variances[g], 1e-4);
    EXPECT_NEAR(going_on.weights[g], fresh.weights[g], 1e-4);
  }
  EXPECT_EQ(parameters_of(fresh).means, fresh.means);
}

TEST(MixtureFromAStart, OfEqualValuesFitsNothing) {
  EXPECT_EQ(gmm2_from(std::vector<double>{.5, .5}, {{.1, .9}, {1, 1}, {.5, .5}}).iterations, 0);
}

// Two clouds in ten dimensions, as class-wise losses of clients are.
Rows clouds(std::size_t count, std::uint64_t seed) {
  Stream stream(seed, "clouds");
  Rows rows;
  for (std::size_t k = 0; k < count; ++k) {
    std::vector<double> row;
    for (int c = 0; c < 10; ++c) {
      row.push_back((k % 3 == 0 ? .7 : .2) + .08 * stream.normal());
    }
    rows.push_back(row);
  }
  return rows;
}

TEST(VectorMixture, TellsTwoCloudsApart) {
  const Rows rows = clouds(60, 5);
  for (std::uint64_t seed = 0; seed < 9; ++seed) {
    const VectorMixture mixture = gmm2_vectors(rows, seed);
    for (std::size_t k = 0; k < rows.size(); ++k) {
      EXPECT_EQ(mixture.labels[k] == mixture.labels[0], k % 3 == 0) << k << " seed " << seed;
    }
    const auto upper = static_cast<std::size_t>(mixture.labels[0]);
    EXPECT_NEAR(mixture.means[upper][4], .7, .06);
    EXPECT_NEAR(mixture.means[1 - upper][4], .2, .06);
  }
}

// Fewer clients than classes: the covariances have no full rank.
TEST(VectorMixture, BearsFewerRowsThanDimensions) {
  const Rows rows = clouds(6, 6);
  const VectorMixture mixture = gmm2_vectors(rows, 1);
  EXPECT_GE(mixture.iterations, 1);
  for (const auto& mean : mixture.means) {
    for (const double value : mean) {
      EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST(VectorMixture, OfEqualRowsIsOneComponent) {
  const VectorMixture mixture = gmm2_vectors({{1, 2}, {1, 2}, {1, 2}}, 1);
  EXPECT_EQ(mixture.iterations, 0);
  EXPECT_THAT(mixture.labels, Each(0));
  EXPECT_TRUE(gmm2_vectors({}, 1).labels.empty());
  EXPECT_THAT(gmm2_vectors({{3, 4}}, 1).labels, ElementsAre(0));
}

TEST(VectorMixture, CanBeStoppedInTheMidstOfACovariance) {
  const Rows rows = clouds(6, 6);
  int pauses = 0;
  gmm2_vectors(rows, 1, {}, [&] { ++pauses; });
  EXPECT_GT(pauses, 2 * 10) << "both factorisations pause in every column";
  for (const int last : {1, 5, pauses}) {
    int passed = 0;
    const auto stop = [&] {
      if (++passed == last) {
        throw std::runtime_error("stopped");
      }
    };
    EXPECT_THROW(gmm2_vectors(rows, 1, {}, stop), std::runtime_error);
    EXPECT_EQ(passed, last);
  }
}

TEST(VectorMixture, RefusesWhatIsNotFinite) {
  try {
    gmm2_vectors({{1, 2}, {1, std::numeric_limits<double>::quiet_NaN()}}, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "gmm2_vectors: value 1 of 2 is nan, expected finite values");
  }
}

}  // namespace winnow::vector_mixture_test
