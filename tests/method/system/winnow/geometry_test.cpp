#include "winnow/method/system/winnow/geometry.h"

#include <gtest/gtest.h>

#include "testing/support.h"

namespace winnow::winnowing::geometry_test {

// Updates of a model of two parameters that stands at (5, 5), by clients of ten samples each.
std::vector<Move> moves(const std::vector<std::pair<float, float>>& updates) {
  std::vector<Move> all;
  for (const auto& [x, y] : updates) {
    all.push_back({state_of({5 + x, 5 + y}, {77}), 10});
  }
  return all;
}

std::vector<Bearing> bearings_of(const std::vector<Move>& all, const Options& options = {}) {
  return bearings(state_of({5, 5}, {0}), all, options);
}

std::vector<bool> struck(const std::vector<Bearing>& all) {
  std::vector<bool> who;
  for (const Bearing& each : all) {
    who.push_back(each.struck);
  }
  return who;
}

// spec: winnow 3.1
TEST(WinnowGeometry, AnUpdateAgainstTheOthersIsStruckAndLeavesTheirSum) {
  const auto found = bearings_of(moves({{2, 0}, {0, 1}, {1, 1}, {-3, -3}}));
  EXPECT_EQ(struck(found), (std::vector<bool>{false, false, false, true}));
  EXPECT_NEAR(found[0].course, 0.11480, 1e-5);
  EXPECT_NEAR(found[3].course, -0.3, 1e-6);
  EXPECT_NEAR(found[0].cosine, 0.38268, 1e-5);
  EXPECT_NEAR(found[1].cosine, 0.38268, 1e-5);
  EXPECT_NEAR(found[2].cosine, 1.0, 1e-6);
  EXPECT_NEAR(found[3].cosine, -1.0, 1e-6);
  EXPECT_NEAR(found[0].length, 2.0, 1e-6);
  EXPECT_NEAR(found[3].length, 4.24264, 1e-5);
}

TEST(WinnowGeometry, LongUpdatesHaveNoLargerSay) {
  // Their plain mean would point the attacker's way.
  const auto found = bearings_of(moves({{1, 0}, {1, 0}, {1, 0}, {-2.5F, 0}, {-2.5F, 0}}));
  EXPECT_EQ(struck(found), (std::vector<bool>{false, false, false, true, true}));
}

TEST(WinnowGeometry, AnotherDirectionIsNotAgainst) {
  EXPECT_EQ(struck(bearings_of(moves({{1, 0}, {1, 0}, {0, 1}, {1, 0}}))),
            (std::vector<bool>(4, false)));
}

TEST(WinnowGeometry, WhoIsOnACourseAgainstTheOthersHasNoSay) {
  std::vector<Move> all = moves({{-1, 0}, {-1, 0}, {-1, 0}, {1, 0.1F}, {1, 0}, {1, -0.1F}});
  for (std::size_t k = 0; k < 3; ++k) {
    all[k].course = -0.5;
  }
  EXPECT_EQ(struck(bearings_of(all)), (std::vector<bool>{true, true, true, false, false, false}));
}

// spec: winnow 3.1
TEST(WinnowGeometry, OneUpdateAgainstAGoodCourseIsForgiven) {
  std::vector<Move> all = moves({{1, 0}, {1, 0}, {1, 0}, {-1, 0}});
  all[3].course = 0.6;
  const auto found = bearings_of(all);
  EXPECT_EQ(struck(found), (std::vector<bool>(4, false)));
  EXPECT_NEAR(found[3].course, 0.12, 1e-6);
  all[3].course = 0.2;
  EXPECT_TRUE(bearings_of(all)[3].struck);
}

TEST(WinnowGeometry, NobodyIsStruckForItsDirectionWhereMostWouldBe) {
  // Three at 120 degrees: each points against the sum of the two others.
  const auto found = bearings_of(moves({{1, 0}, {-0.5F, 0.866F}, {-0.5F, -0.866F}}));
  EXPECT_EQ(struck(found), (std::vector<bool>(3, false)));
  EXPECT_EQ(found[0].course, 0.0) << "and nothing is held against anybody later";
  EXPECT_EQ(struck(bearings_of(moves({{1, 0}, {-1, 0}}))), (std::vector<bool>(2, false)));
  EXPECT_TRUE(bearings_of({}).empty());
}

// spec: winnow 3.2
TEST(WinnowGeometry, AnUpdateOutOfProportionIsStruck) {
  EXPECT_FALSE(out_of_proportion(3.0, 10, 1.0, 10, 3.0));
  EXPECT_TRUE(out_of_proportion(3.1, 10, 1.0, 10, 3.0));
  EXPECT_FALSE(out_of_proportion(5.9, 20, 1.0, 10, 3.0)) << "twice the samples, twice the length";
  EXPECT_TRUE(out_of_proportion(3.1, 5, 1.0, 10, 3.0)) << "fewer samples excuse nothing";
  EXPECT_TRUE(out_of_proportion(.01, 10, 1.0, 10, 3.0)) << "it did not train";
  EXPECT_FALSE(out_of_proportion(.011, 10, 1.0, 10, 3.0));
  EXPECT_FALSE(out_of_proportion(0.0, 10, 0.0, 10, 3.0)) << "nobody moved";
  const auto found = bearings_of(moves({{1, 0}, {1, 0}, {11, 0}, {0, 0}, {1, 0}}));
  EXPECT_EQ(struck(found), (std::vector<bool>{false, false, true, true, false}));
  EXPECT_EQ(found[3].cosine, 0.0);
}

// spec: winnow 3.1
TEST(WinnowGeometry, ACourseIsTheMeanOfCosinesTheLatestCountingMost) {
  double course = 0.0;
  for (const double expected : {-.2, -.3, -.35}) {
    course = next_course(course, -.4, .5);
    EXPECT_NEAR(course, expected, 1e-12);
  }
  EXPECT_DOUBLE_EQ(next_course(-.8, .3, 1.0), .3);
}

}  // namespace winnow::winnowing::geometry_test
