#include "winnow/method/system/winnow/arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace winnow::winnowing::arithmetic_test {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;
using testing::Gt;

TEST(WinnowArithmetic, ExaminesFromTheEndOfTheWarmUpOnEverySoManyRounds) {
  const Options options{.warmup = 3, .every = 2};
  std::vector<std::int64_t> when;
  for (std::int64_t round = 0; round < 9; ++round) {
    if (examines(options, round, 9)) {
      when.push_back(round);
    }
  }
  EXPECT_EQ(when, (std::vector<std::int64_t>{2, 4, 6})) << "nothing follows the last round, 8";
  EXPECT_FALSE(examines({.warmup = 3, .every = 2, .remedy = Remedy::none}, 2, 9));
}

// spec: winnow 2.1
TEST(WinnowArithmetic, ThresholdsAreTheMeansOverTheUnionOfTheClients) {
  EXPECT_THAT(thresholds({{0, {{.8, .4, 0}, {3, 1, 0}}}, {4, {{.6, 0, 0}, {1, 0, 0}}}}, 3),
              ElementsAre(DoubleNear(.75, 1e-12), DoubleNear(.4, 1e-12), 2.0));
}

KindFinding worked_finding() {
  KindFinding finding;
  finding.mix = {.75, .25};
  finding.flips = {.9, .1, .3, .7};
  return finding;
}

const Confusion kGood{2, {.8, .2, .3, .7}, 100};

// spec: winnow 2.3
TEST(WinnowArithmetic, TrustIsHowMuchLikelierTheImageIsIfTheLabelIsRight) {
  EXPECT_THAT(trust(worked_finding(), kGood, 6, true),
              ElementsAre(1.0, DoubleNear(.74888, 1e-5), DoubleNear(.70217, 1e-5), 1.0));
  EXPECT_THAT(trust(worked_finding(), kGood, 6, false),
              ElementsAre(1.0, DoubleNear(.61145, 1e-5), DoubleNear(.81707, 1e-5), 1.0));
}

TEST(WinnowArithmetic, AModelThatKnowsNothingTakesNothingAway) {
  const Confusion blind{2, {.4, .6, .4, .6}, 100};
  EXPECT_THAT(trust(worked_finding(), blind, 6, true), Each(DoubleNear(1.0, 1e-12)));
  KindFinding right = worked_finding();
  right.flips = {1, 0, 0, 1};
  EXPECT_THAT(trust(right, kGood, 6, true), Each(Gt(.9))) << "nor do labels that are right";
}

// spec: winnow 4
TEST(WinnowArithmetic, ASampleCountsByItsLabelAndTheClassThatItIsTakenFor) {
  const std::vector<double> found{1, .74888, .70217, 1};
  const std::vector<double> bars{.6, .5};
  const std::vector<float> rows{.7F, .3F, .3F, .7F, .7F, .3F, .55F, .45F};
  const std::vector<std::int64_t> labels{0, 0, 1, 1};
  EXPECT_THAT(shares(rows, labels, bars, found), ElementsAre(1.0, .74888, .70217, 1.0))
      << "the last is taken for nothing";
  EXPECT_TRUE(shares({}, {}, bars, found).empty());
}

// Counts of a client of three classes that has a share of its labels moved to the class after, and
// a model that is right about 9 of 10 samples.
JointCounts client(double moved, std::int64_t of_a_class = 100) {
  JointCounts counts(3);
  const auto wrong = static_cast<std::int64_t>(moved * static_cast<double>(of_a_class));
  for (std::int64_t truth = 0; truth < 3; ++truth) {
    for (const auto& [given, samples] :
         {std::pair((truth + 1) % 3, wrong), std::pair(truth, of_a_class - wrong)}) {
      counts.add(given, truth, samples * 9 / 10);
      counts.add(given, (truth + 1) % 3, samples / 20);
      counts.add(given, (truth + 2) % 3, samples / 20);
    }
  }
  return counts;
}

// spec: winnow 2.2
TEST(WinnowArithmetic, ClientsWithMovedLabelsAreDoubtedAndOthersAreNot) {
  const auto found =
      examine({{0, client(0)}, {1, client(0)}, {2, client(.4)}, {5, client(0)}}, {}, Options());
  for (const std::int64_t honest : {0, 1, 5}) {
    EXPECT_FALSE(found.at(honest).doubted) << honest;
    EXPECT_EQ(found.at(honest).kind, NoiseKind::none) << honest;
    EXPECT_TRUE(found.at(honest).trust.empty()) << honest;
  }
  const Labelling& noisy = found.at(2);
  EXPECT_TRUE(noisy.doubted);
  EXPECT_EQ(noisy.kind, NoiseKind::pair);
  EXPECT_NEAR(noisy.rate, .4, .03);
  EXPECT_LT(noisy.honest, 1e-6);
  // A label 1 is a moved 0 in two of five cases, and never a moved 2.
  EXPECT_LT(noisy.trust[1 * 3 + 0], .2);
  EXPECT_EQ(noisy.trust[1 * 3 + 1], 1.0);
  EXPECT_GT(noisy.trust[1 * 3 + 2], .9);
}

// spec: winnow 2.2
TEST(WinnowArithmetic, DoubtBeginsAtOneShareAndEndsAtAnother) {
  const std::map<std::int64_t, JointCounts> counts{
      {0, client(0)}, {1, client(0)}, {2, client(.2)}, {5, client(0)}};
  const Options above{.enter = .3, .leave = .1};
  const auto first = examine(counts, {}, above);
  EXPECT_NEAR(first.at(2).rate, .2, .03);
  EXPECT_FALSE(first.at(2).doubted) << "below enter";
  std::map<std::int64_t, Labelling> before;
  before[2].doubted = true;
  EXPECT_TRUE(examine(counts, before, above).at(2).doubted) << "not below leave";
  EXPECT_FALSE(examine(counts, before, {.enter = .5, .leave = .4}).at(2).doubted);
}

// spec: winnow 2.2
TEST(WinnowArithmetic, NoiseThatAModelsConfusionsCanLookLikeIsNotTreated) {
  JointCounts mixed(3);  // of class 0 a third is labelled 1, of class 1 a tenth 2
  for (const auto& [given, truth, samples] : std::vector<std::array<std::int64_t, 3>>{
           {0, 0, 200}, {1, 0, 100}, {1, 1, 270}, {2, 1, 30}, {2, 2, 300}}) {
    mixed.add(given, truth, samples * 9 / 10);
    mixed.add(given, (truth + 1) % 3, samples / 20);
    mixed.add(given, (truth + 2) % 3, samples / 20);
  }
  const std::map<std::int64_t, JointCounts> counts{
      {0, client(0)}, {1, client(0)}, {2, mixed}, {5, client(0)}};
  const Labelling kept = examine(counts, {}, {.enter = .1}).at(2);
  EXPECT_EQ(kept.kind, NoiseKind::class_dependent);
  EXPECT_NEAR(kept.rate, .14, .03) << "it is told all the same";
  EXPECT_FALSE(kept.doubted);
  EXPECT_TRUE(examine(counts, {}, {.enter = .1, .any_kind = true}).at(2).doubted);
}

TEST(WinnowArithmetic, NobodyIsExaminedWhereNobodyAnswers) {
  EXPECT_TRUE(examine({}, {}, Options()).empty());
}

}  // namespace winnow::winnowing::arithmetic_test
