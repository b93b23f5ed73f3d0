#include "winnow/method/noisy_label/clc/arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "testing/support.h"
#include "winnow/base/random.h"

namespace winnow::clc::rules_test {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<double>;
using Labels = std::vector<std::int64_t>;

const Values kAgreed{.45, .875};

// spec: baselines 20
TEST(ClcConsensus, GivesTheWorkedNumbers) {
  Consensus consensus(2);
  consensus.add({{.6, .8}, {10, 5}});
  consensus.add({{.4, .9}, {30, 15}});
  EXPECT_THAT(consensus.confidence(), ElementsAre(DoubleNear(.45, 1e-12), DoubleNear(.875, 1e-12)));
}

TEST(ClcConsensus, LetsAnAbsentClassContributeNothing) {
  Consensus consensus(3);
  consensus.add({{.6, 0, 0}, {10, 0, 0}});
  consensus.add({{.4, .9, 0}, {30, 15, 0}});
  EXPECT_THAT(consensus.confidence(),
              ElementsAre(DoubleNear(.45, 1e-12), DoubleNear(.9, 1e-12), 1.0))
      << "what nobody has is never confident";
}

TEST(ClcConfidence, IsTheMeanProbabilityOfTheGivenLabel) {
  const Values rows{.7, .2, .1, .5, .3, .2, .1, .8, .1};
  const ClassConfidence own = class_confidence(rows, Labels{0, 0, 1}, 3);
  EXPECT_THAT(own.mean, ElementsAre(DoubleNear(.6, 1e-12), DoubleNear(.8, 1e-12), 0.0));
  EXPECT_THAT(own.count, ElementsAre(2, 1, 0));
}

TEST(ClcConfidence, OfNoSamplesIsZero) {
  const ClassConfidence own = class_confidence({}, {}, 2);
  EXPECT_THAT(own.mean, ElementsAre(0, 0));
  EXPECT_THAT(own.count, ElementsAre(0, 0));
}

void expect_verdict(const Verdict& verdict, std::int64_t label, bool held_out) {
  EXPECT_EQ(verdict.label, label);
  EXPECT_EQ(verdict.held_out, held_out);
}

// spec: baselines 20
TEST(ClcJudge, DecidesTheWorkedSamples) {
  expect_verdict(judge(Values{.54, .46}, 1, kAgreed, .1), 0, false);  // margin .08
  expect_verdict(judge(Values{.6, .4}, 1, kAgreed, .1), 0, true);
  expect_verdict(judge(Values{.44, .56}, 0, kAgreed, .1), 1, false);  // nothing is confident
}

TEST(ClcJudge, KeepsASampleThatAgrees) {
  expect_verdict(judge(Values{.9, .1}, 0, kAgreed, .1), 0, false);
}

// The most probable class is not confident, a less probable one is.
TEST(ClcJudge, PrefersConfidentClassesToProbableOnes) {
  expect_verdict(judge(Values{.5, .3, .2}, 2, Values{.9, .2, .9}, .1), 1, true);
  expect_verdict(judge(Values{.5, .3, .2}, 1, Values{.9, .2, .9}, .1), 1, false);
}

TEST(ClcJudge, NeedsMoreThanTheConfidenceAndMoreThanTheMargin) {
  expect_verdict(judge(Values{.5, .25, .25}, 1, Values{.5, .9, .9}, .1), 0, false);
  expect_verdict(judge(Values{.5, .25, .25}, 1, Values{.4, .9, .9}, .25), 0, false);
  expect_verdict(judge(Values{.5, .25, .25}, 1, Values{.4, .9, .9}, .24), 0, true);
}

TEST(ClcJudge, TakesTheLowerOfEqualClasses) {
  expect_verdict(judge(Values{.1, .45, .45}, 0, Values{.2, .2, .2}, .1), 1, true);
  expect_verdict(judge(Values{.1, .45, .45}, 0, Values{1, 1, 1}, .1), 1, false);
}

// spec: baselines 20: full confidence, or a margin of 1 or more, holds nothing out.
TEST(ClcJudge, HoldsNothingOutAtTheEnds) {
  Stream stream(7, "clc judge test");
  for (int i = 0; i < 500; ++i) {
    Values p = stream.dirichlet(0.1, 4);
    if (i == 0) {
      p = {0, 1, 0, 0};
    }
    expect_verdict(judge(p, 0, Values{1, 1, 1, 1}, 0.0), std::ranges::max_element(p) - p.begin(),
                   false);
    EXPECT_FALSE(judge(p, 0, Values{0, 0, 0, 0}, 1.0).held_out);
    EXPECT_FALSE(judge(p, 0, Values{.1, .2, .1, .2}, 1.5).held_out);
  }
}

TEST(ClcRelabel, ChangesAllOrOnlyTheHeldOut) {
  const std::vector<Verdict> verdicts{{0, false}, {0, true}, {1, false}, {1, false}};
  Labels all{1, 1, 0, 1};
  EXPECT_EQ(relabel(all, verdicts, false), 3);
  EXPECT_EQ(all, (Labels{0, 0, 1, 1}));
  Labels some{1, 1, 0, 1};
  EXPECT_EQ(relabel(some, verdicts, true), 1);
  EXPECT_EQ(some, (Labels{1, 0, 0, 1}));
}

TEST(ClcSchedule, RunsThroughItsStages) {
  Options options;
  EXPECT_EQ(options.rounds(), 201);
  EXPECT_EQ(stage_of(options, 0), Stage::start);
  EXPECT_EQ(stage_of(options, 1), Stage::hold_out);
  EXPECT_EQ(stage_of(options, 150), Stage::hold_out);
  EXPECT_EQ(stage_of(options, 151), Stage::correction);
  EXPECT_FALSE(corrects(options, 150));
  EXPECT_TRUE(corrects(options, 151));
  EXPECT_FALSE(corrects(options, 152));
  options.start_rounds = 0;
  EXPECT_EQ(stage_of(options, 0), Stage::hold_out);
}

TEST(ClcOptions, RefuseWhatIsOutOfRange) {
  const auto refusal = [](const Json& table) {
    return error_text([&] {
      Options options;
      Params params;
      declare(options, params);
      params.read(table, "method");
    });
  };
  EXPECT_EQ(refusal({{"tau", 0.3}, {"relabel", "held_out"}}), "no error");
  EXPECT_THAT(refusal({{"tau", -0.1}}), HasSubstr("method.tau"));
  EXPECT_THAT(refusal({{"relabel", "some"}}), HasSubstr("one of all, held_out"));
  EXPECT_THAT(refusal({{"holdout_rounds", -1}}), HasSubstr("method.holdout_rounds"));
}

}  // namespace winnow::clc::rules_test
