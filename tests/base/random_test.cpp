#include "winnow/base/random.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

namespace winnow::random_test {

TEST(Random, StreamWithTheSameKeyRepeatsItself) {
  Stream a(7, "batches", 3, 4);
  Stream b(7, "batches", 3, 4);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(a.next_u64(), b.next_u64());
  }
}

TEST(Random, EveryPartOfTheKeyMatters) {
  std::set<std::uint64_t> firsts;
  firsts.insert(Stream(7, "batches", 3, 4).next_u64());
  firsts.insert(Stream(8, "batches", 3, 4).next_u64());
  firsts.insert(Stream(7, "noise", 3, 4).next_u64());
  firsts.insert(Stream(7, "batches", 4, 3).next_u64());
  firsts.insert(Stream(7, "batches", 3).next_u64());
  firsts.insert(Stream(7, "batches", 3, 4, 0).next_u64());
  EXPECT_EQ(firsts.size(), 6U);
}

TEST(Random, PhiloxMatchesThePublishedVectorForZeroKeyAndCounter) {
  Stream stream(std::uint64_t{0});
  EXPECT_EQ(stream.next_u32(), 0x6627e8d5U);
  EXPECT_EQ(stream.next_u32(), 0xe169c58dU);
  EXPECT_EQ(stream.next_u32(), 0xbc57ac4cU);
  EXPECT_EQ(stream.next_u32(), 0x9b00dbd8U);
}

// The bits of every kind of draw. They may change with a version of Winnow, never with a machine, a
// compiler or a C library.
TEST(Random, DrawsAreTheSameBitsEverywhere) {
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  Stream stream(42, "golden", 7);
  EXPECT_EQ(bits(stream.uniform()), 0x3fca963e5f90eafcU);
  EXPECT_EQ(bits(stream.normal()), 0xbff14ab76e5c4abcU);
  EXPECT_EQ(bits(stream.normal()), 0xbfd02782209cbc5eU);
  EXPECT_EQ(bits(stream.gamma(0.3)), 0x3fbff41e026a9e38U);
  EXPECT_EQ(bits(stream.gamma(2.5)), 0x4018680a76214651U);
  EXPECT_EQ(bits(stream.beta(0.5, 2.0)), 0x3fcec375ec88b1fdU);
  EXPECT_EQ(bits(stream.truncated_normal(-2.0, 2.0)), 0xbfca4cdd04eb94a3U);
  EXPECT_EQ(bits(stream.truncated_normal(4.0, 5.0)), 0x401100693f59637aU);
  EXPECT_EQ(stream.poisson(3.0), 6U);
  EXPECT_EQ(stream.poisson(200.0), 209U);
  const std::vector<double> shares = stream.dirichlet(0.1, 3);
  EXPECT_EQ(bits(shares[0]), 0x3ee7e04eceb89045U);
  EXPECT_EQ(bits(shares[1]), 0x3f8add3bc0db2640U);
  EXPECT_EQ(bits(shares[2]), 0x3fef947330adc4aeU);
  EXPECT_EQ(stream.categorical(std::vector<double>{1.0, 2.0, 3.0}), 2U);
  EXPECT_EQ(stream.below(1'000'003), 378'635U);
  std::uint64_t all = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    all = all * 6364136223846793005U + bits(stream.normal());
  }
  EXPECT_EQ(all, 0xa17be28a5d86e19bU) << "a million normals";
}

TEST(Random, UniformAndNormalHaveTheirMoments) {
  Stream stream(1, "moments");
  double sum = 0.0, square = 0.0, normal_sum = 0.0, normal_square = 0.0;
  constexpr int kCount = 200000;
  for (int i = 0; i < kCount; ++i) {
    const double u = stream.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    square += u * u;
    const double z = stream.normal();
    normal_sum += z;
    normal_square += z * z;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.003);
  EXPECT_NEAR(square / kCount, 1.0 / 3.0, 0.003);
  EXPECT_NEAR(normal_sum / kCount, 0.0, 0.01);
  EXPECT_NEAR(normal_square / kCount, 1.0, 0.015);
}

TEST(Random, GammaAndPoissonHaveTheirMeanAndVariance) {
  for (const double shape : {0.1, 0.5, 1.0, 4.0}) {
    Stream stream(2, "gamma");
    double sum = 0.0, square = 0.0;
    constexpr int kCount = 100000;
    for (int i = 0; i < kCount; ++i) {
      const double value = stream.gamma(shape);
      sum += value;
      square += value * value;
    }
    const double mean = sum / kCount;
    EXPECT_NEAR(mean, shape, 0.03 * std::max(shape, 0.5)) << shape;
    EXPECT_NEAR(square / kCount - mean * mean, shape, 0.06 * std::max(shape, 0.5)) << shape;
  }
  for (const double mean : {0.5, 10.0, 250.0}) {
    Stream stream(3, "poisson");
    double sum = 0.0, square = 0.0;
    constexpr int kCount = 50000;
    for (int i = 0; i < kCount; ++i) {
      const auto value = static_cast<double>(stream.poisson(mean));
      sum += value;
      square += value * value;
    }
    EXPECT_NEAR(sum / kCount, mean, 0.02 * mean) << mean;
    EXPECT_NEAR(square / kCount - sum / kCount * sum / kCount, mean, 0.05 * mean) << mean;
  }
}

TEST(Random, BelowIsUniformAndInRange) {
  Stream stream(4, "below");
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) {
    ++counts[stream.below(7)];
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 10000, 450);
  }
}

TEST(Random, SampleIsDistinctAndPermutationIsComplete) {
  Stream stream(5, "sample");
  const auto picked = stream.sample(100, 30);
  EXPECT_EQ(std::set<std::int64_t>(picked.begin(), picked.end()).size(), 30U);
  const auto order = stream.permutation(50);
  EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 50U);
}

TEST(Random, DirichletSumsToOne) {
  Stream stream(6, "dirichlet");
  for (const double alpha : {0.05, 0.5, 10.0}) {
    const auto shares = stream.dirichlet(alpha, 100);
    double sum = 0.0;
    for (const double share : shares) {
      ASSERT_GE(share, 0.0);
      sum += share;
    }
    EXPECT_NEAR(sum, 1.0, 1e-12);
  }
}

TEST(Random, TruncatedNormalStaysInsideEvenFarInTheTail) {
  Stream stream(7, "truncated");
  for (int i = 0; i < 1000; ++i) {
    const double near = stream.truncated_normal(-0.5, 0.5);
    EXPECT_TRUE(near >= -0.5 && near <= 0.5);
    const double far = stream.truncated_normal(8.0, 9.0);
    EXPECT_TRUE(far >= 8.0 && far <= 9.0);
  }
}

TEST(Random, CategoricalNeverPicksAZeroWeight) {
  Stream stream(8, "categorical");
  const std::vector<double> weights{0.0, 0.25, 0.0, 0.75, 0.0};
  int threes = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::size_t index = stream.categorical(weights);
    ASSERT_TRUE(index == 1 || index == 3);
    threes += index == 3 ? 1 : 0;
  }
  EXPECT_NEAR(threes, 15000, 300);
}

// Few of many are drawn without a list of all of them, and are the same.
TEST(Stream, AFewOfManyAreThoseOfAWholeShuffle) {
  for (const std::int64_t n : {100, 1000, 4096}) {
    for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, n / 20, n / 17}) {
      Stream sparse(9, "sample", n, count);
      Stream dense(9, "sample", n, count);
      std::vector<std::int64_t> pool(static_cast<std::size_t>(n));
      std::iota(pool.begin(), pool.end(), std::int64_t{0});
      for (std::int64_t i = 0; i < count; ++i) {
        const auto other =
            i + static_cast<std::int64_t>(dense.below(static_cast<std::uint64_t>(n - i)));
        std::swap(pool[static_cast<std::size_t>(i)], pool[static_cast<std::size_t>(other)]);
      }
      pool.resize(static_cast<std::size_t>(count));
      EXPECT_EQ(sparse.sample(n, count), pool) << count << " of " << n;
      EXPECT_EQ(sparse.next_u64(), dense.next_u64());
    }
  }
}

}  // namespace winnow::random_test
