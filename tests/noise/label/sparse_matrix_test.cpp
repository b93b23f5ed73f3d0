#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/support.h"
#include "winnow/noise/label/label_noise.h"
#include "winnow/noise/label/label_noise_rules.h"

namespace winnow::sparse_matrix_test {

using testing::HasSubstr;

// spec: rivals 5.6
TEST(SparseMatrix, HasTheAmountTheZerosAndTheOrigins) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Stream stream(seed, "sparse test");
    const auto matrix = sparse_matrix(stream, 10, .4, .8);
    ASSERT_TRUE(matrix);
    double trace = 0.0;
    int zeros = 0;
    for (std::size_t y = 0; y < 10; ++y) {
      double row = 0.0;
      double given = 0.0;
      for (std::size_t i = 0; i < 10; ++i) {
        row += (*matrix)[y * 10 + i];
        given += (*matrix)[i * 10 + y] / 10;
        zeros += (*matrix)[y * 10 + i] == 0.0 ? 1 : 0;
      }
      EXPECT_NEAR(row, 1.0, 1e-12);
      EXPECT_LT(given, (*matrix)[y * 10 + y]);
      trace += (*matrix)[y * 10 + y];
    }
    EXPECT_NEAR(trace, 6.0, 1e-9);
    EXPECT_EQ(zeros, 72) << "80 % of 90";
  }
}

TEST(SparseMatrix, LeavesEveryClassSomethingToFlipTo) {
  Stream stream(1, "sparse test");
  const auto matrix = sparse_matrix(stream, 4, .2, 1.0);
  ASSERT_TRUE(matrix);
  for (std::size_t y = 0; y < 4; ++y) {
    EXPECT_LT((*matrix)[y * 4 + y], 1.0);
  }
}

TEST(SparseMatrix, SaysWhereThereIsNone) {
  const Assignment assign{{0, 1, 2, 3}};
  const std::vector<std::int64_t> labels{0, 1, 0, 1};
  GivenLabels given{{0, 1, 0, 1}};
  Ledger ledger(5, 4, 1);
  const LabelNoise noise = LabelNoise::parse({{"name", "sparse_matrix"}, {"amount", 0.99}},
                                             builtin_label_noises(), "noise.0");
  EXPECT_THAT(error_text([&] {
                noise.apply({assign, labels, 2, 5, 0}, given, ledger);
              }),
              HasSubstr("noise.0: no matrix with amount 0.99 and sparsity 0.8 was found"));
}

// The data of others can have many classes.
TEST(SparseMatrix, IsNotDrawnForThousandsOfClasses) {
  const Assignment assign{{0, 1}};
  const std::vector<std::int64_t> labels{0, 1000};
  GivenLabels given{{0, 1000}};
  Ledger ledger(5, 2, 1);
  const LabelNoise noise =
      LabelNoise::parse({{"name", "sparse_matrix"}}, builtin_label_noises(), "noise.0");
  EXPECT_THAT(error_text([&] {
                noise.apply({assign, labels, 1001, 5, 0}, given, ledger);
              }),
              HasSubstr("noise.0: 1001 classes are more than 1000, the most that a random matrix "
                        "is drawn for | give a matrix of your own with transition_matrix"));
}

// Attempts that are given up at once fill no matrix: each of the 10,000 would take milliseconds.
TEST(SparseMatrix, IsDrawnOrGivenUpForAThousandClasses) {
  Stream stream(1, "sparse test");
  EXPECT_TRUE(sparse_matrix(stream, 1000, .05, .9));
  EXPECT_FALSE(sparse_matrix(stream, 1000, .9, .9));
}

}  // namespace winnow::sparse_matrix_test
