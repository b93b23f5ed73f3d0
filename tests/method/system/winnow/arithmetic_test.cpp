#include "winnow/method/system/winnow/arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace winnow::winnowing::arithmetic_test {

using testing::DoubleNear;
using testing::ElementsAre;

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
  const Thresholds found =
      thresholds({{0, {{.8, .4, 0}, {3, 1, 0}}}, {4, {{.6, 0, 0}, {1, 0, 0}}}}, 3);
  EXPECT_THAT(found.values, ElementsAre(DoubleNear(.75, 1e-12), DoubleNear(.4, 1e-12), 2.0));
  EXPECT_THAT(found.shares, ElementsAre(DoubleNear(.8, 1e-12), DoubleNear(.2, 1e-12), 0.0));
}

KindFinding worked_finding() {
  KindFinding finding;
  finding.mix = {.75, .25};
  finding.flips = {.9, .1, .3, .7};
  return finding;
}

// spec: winnow 2.3
TEST(WinnowArithmetic, EvidenceIsTheFlipTimesHowMuchMoreOfTheClassTheClientHas) {
  const std::vector<double> even{.5, .5};
  EXPECT_THAT(evidence(worked_finding(), even, 6, true),
              ElementsAre(DoubleNear(1.2265, 1e-12), DoubleNear(.1485, 1e-12),
                          DoubleNear(.19, 1e-12), DoubleNear(.435, 1e-12)));
  EXPECT_THAT(evidence(worked_finding(), even, 6, false),
              ElementsAre(DoubleNear(.892, 1e-12), DoubleNear(.108, 1e-12), DoubleNear(.304, 1e-12),
                          DoubleNear(.696, 1e-12)));
  const std::vector<double> one_named{1.0, 0.0};
  EXPECT_THAT(evidence(worked_finding(), one_named, 6, true)[2], DoubleNear(.304, 1e-12))
      << "a share of 0 divides nothing";
}

// spec: winnow 4.1
TEST(WinnowArithmetic, TheTrueClassIsWeighedByModelAndLabel) {
  const std::vector<double> e{1.2265, .1485, .19, .435};
  const std::vector<float> p{.4F, .6F};
  EXPECT_THAT(posterior(p, 1, e), ElementsAre(DoubleNear(.18539, 1e-5), DoubleNear(.81461, 1e-5)));
  EXPECT_THAT(posterior(p, 0, e), ElementsAre(DoubleNear(.81145, 1e-5), DoubleNear(.18855, 1e-5)));
  const std::vector<double> impossible(4, 0.0);
  EXPECT_THAT(posterior(p, 0, impossible), ElementsAre(0.0, 0.0));
}

// spec: winnow 4.1
TEST(WinnowArithmetic, ALikelyLabelIsKeptAndASureOtherClassTakesItsPlace) {
  const std::vector<double> e{1.2265, .1485, .19, .435};
  // The labels are right with .81461, .81145, .05641 and .27236.
  const std::vector<float> rows{.4F, .6F, .4F, .6F, .98F, .02F, .8867F, .1133F};
  const std::vector<std::int64_t> labels{1, 0, 1, 1};
  const Sifted sifted = sift(rows, labels, e, .94);
  EXPECT_EQ(sifted.labels, (std::vector<std::int64_t>{1, 0, 0, 1}));
  EXPECT_EQ(sifted.kept, (std::vector<bool>{true, true, true, false}));
  const Sifted never = sift(rows, labels, e, 1.0);
  EXPECT_EQ(never.labels, labels);
  EXPECT_EQ(never.kept, (std::vector<bool>{true, true, false, false}));
  const Sifted nothing = sift(rows, labels, std::vector<double>(4, 0.0), 0.0);
  EXPECT_EQ(nothing.labels, labels);
  EXPECT_EQ(nothing.kept, (std::vector<bool>(4, false)));
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

const std::vector<double> kThirds(3, 1.0 / 3.0);

// spec: winnow 2.2
TEST(WinnowArithmetic, ClientsWithMovedLabelsAreDoubtedAndOthersAreNot) {
  const auto found = examine({{0, client(0)}, {1, client(0)}, {2, client(.4)}, {5, client(0)}},
                             kThirds, {}, Options());
  for (const std::int64_t honest : {0, 1, 5}) {
    EXPECT_FALSE(found.at(honest).doubted) << honest;
    EXPECT_EQ(found.at(honest).kind, NoiseKind::none) << honest;
    EXPECT_TRUE(found.at(honest).evidence.empty()) << honest;
  }
  const Labelling& noisy = found.at(2);
  EXPECT_TRUE(noisy.doubted);
  EXPECT_EQ(noisy.kind, NoiseKind::pair);
  EXPECT_NEAR(noisy.rate, .4, .03);
  EXPECT_LT(noisy.honest, 1e-6);
  // A label 1 is a moved 0 in two of five cases, and never a moved 2.
  EXPECT_GT(noisy.evidence[0 * 3 + 1], 20 * noisy.evidence[2 * 3 + 1]);
  EXPECT_NEAR(noisy.evidence[0 * 3 + 1] / noisy.evidence[1 * 3 + 1], .4 / .6, .1);
}

// spec: winnow 2.2
TEST(WinnowArithmetic, DoubtBeginsAtOneShareAndEndsAtAnother) {
  const std::map<std::int64_t, JointCounts> counts{
      {0, client(0)}, {1, client(0)}, {2, client(.2)}, {5, client(0)}};
  const Options above{.enter = .3, .leave = .1};
  const auto first = examine(counts, kThirds, {}, above);
  EXPECT_NEAR(first.at(2).rate, .2, .03);
  EXPECT_FALSE(first.at(2).doubted) << "below enter";
  std::map<std::int64_t, Labelling> before;
  before[2].doubted = true;
  EXPECT_TRUE(examine(counts, kThirds, before, above).at(2).doubted) << "not below leave";
  EXPECT_FALSE(examine(counts, kThirds, before, {.enter = .5, .leave = .4}).at(2).doubted);
}

TEST(WinnowArithmetic, NobodyIsExaminedWhereNobodyAnswers) {
  EXPECT_TRUE(examine({}, kThirds, {}, Options()).empty());
}

}  // namespace winnow::winnowing::arithmetic_test
