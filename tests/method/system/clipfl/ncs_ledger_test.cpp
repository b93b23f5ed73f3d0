#include "winnow/method/system/clipfl/ncs_ledger.h"

#include <gtest/gtest.h>

#include "testing/support.h"

namespace winnow::clipfl::clipfl_ncs_ledger_test {

using Ids = std::vector<std::int64_t>;
using IdSet = std::set<std::int64_t>;

const Ids kSix{0, 1, 2, 3, 4, 5};

void play(NcsLedger& ledger, const std::vector<Judgement>& round, std::int64_t keep) {
  for (const Judgement& judgement : round) {
    ledger.judge(judgement);
  }
  for (const std::int64_t client : below_the_best(round, keep)) {
    ledger.flag(client);
  }
}

// spec: label-noise C.7 #3
NcsLedger script() {
  NcsLedger ledger;
  play(ledger, {{0, .50}, {1, .42}, {2, .30}}, 2);
  play(ledger, {{3, .55}, {4, .31}, {5, .40}}, 2);
  play(ledger, {{2, .28}, {4, .33}, {5, .45}}, 2);
  play(ledger, {{0, .60}, {3, .52}, {5, .49}}, 2);
  return ledger;
}

Ids ncs_of(const NcsLedger& ledger) {
  Ids counts;
  for (const std::int64_t client : kSix) {
    counts.push_back(ledger.ncs(client));
  }
  return counts;
}

TEST(NcsLedger, CountsTheScript) {
  const NcsLedger ledger = script();
  EXPECT_EQ(ncs_of(ledger), (Ids{0, 0, 2, 0, 1, 1}));
  EXPECT_EQ(ledger.worst(kSix, 3, Tie::ratio), (Ids{2, 4, 5}));
  EXPECT_EQ(ledger.worst(kSix, 2, Tie::ratio), (Ids{2, 4}));
  EXPECT_EQ(ledger.worst(kSix, 2, Tie::id), (Ids{2, 4}));
  EXPECT_DOUBLE_EQ(ledger.ratios().at(4), 1.0 / 2);
  EXPECT_DOUBLE_EQ(ledger.ratios().at(5), 1.0 / 3);
  EXPECT_DOUBLE_EQ(ledger.scores().at(2), 2.0);
  EXPECT_DOUBLE_EQ(ledger.accuracies().at(2), 0.29);
}

// spec: label-noise C.7 #4
TEST(NcsLedger, HoldsTheLowerIdToBeBetter) {
  EXPECT_EQ(below_the_best({{5, .5}, {1, .5}, {3, .5}}, 2), IdSet{5});
}

TEST(NcsLedger, FlagsNobodyInASmallRound) {
  EXPECT_TRUE(below_the_best({{1, .5}, {3, .1}}, 2).empty());
  EXPECT_TRUE(below_the_best({{1, .5}}, 2).empty());
  EXPECT_TRUE(below_the_best({}, 2).empty());
}

TEST(NcsLedger, BreaksTiesByRatioThenAccuracyThenId) {
  NcsLedger ledger;
  // Clients 0 to 3 are all flagged once; 0 was sampled twice, 2 did worse than 1 and 3.
  ledger.judge({0, .1});
  ledger.judge({0, .1});
  ledger.judge({1, .5});
  ledger.judge({2, .4});
  ledger.judge({3, .5});
  for (const std::int64_t client : {0, 1, 2, 3}) {
    ledger.flag(client);
  }
  const Ids four{0, 1, 2, 3};
  EXPECT_EQ(ledger.worst(four, 4, Tie::ratio), (Ids{2, 1, 3, 0}));
  EXPECT_EQ(ledger.worst(four, 4, Tie::id), (Ids{0, 1, 2, 3}));
}

TEST(NcsLedger, PutsAClientThatWasNeverSampledAfterEveryFlaggedOne) {
  NcsLedger ledger;
  ledger.judge({0, .9});
  ledger.judge({2, .3});
  ledger.flag(2);
  const Ids three{0, 1, 2};
  EXPECT_EQ(ledger.worst(three, 3, Tie::ratio), (Ids{2, 1, 0}))
      << "unknown before known to be good";
  EXPECT_EQ(ledger.sampled(1), 0);
  EXPECT_FALSE(ledger.ratios().contains(1));
}

TEST(NcsLedger, CountsAModelThatCannotBeJudgedAgainstItsClient) {
  NcsLedger ledger;
  ledger.judge({0, .2});
  ledger.flag(0);
  ledger.reject(1);
  EXPECT_EQ(ledger.ncs(1), 1);
  EXPECT_EQ(ledger.sampled(1), 1);
  EXPECT_FALSE(ledger.accuracies().contains(1));
  EXPECT_EQ(ledger.worst(Ids{0, 1}, 1, Tie::ratio), Ids{1}) << "as if it got nothing right";
}

TEST(NcsLedger, OfNobodyOrOfMoreThanThereAre) {
  EXPECT_TRUE(script().worst(kSix, 0, Tie::ratio).empty());
  EXPECT_EQ(script().worst(Ids{1, 4}, 9, Tie::ratio), (Ids{4, 1}));
}

TEST(NcsLedger, ReadsWhatItWrote) {
  const NcsLedger ledger = script();
  Archive archive;
  ledger.save(archive, "ledger");
  for (const bool from_file : {false, true}) {
    if (from_file) {
      archive = out_of_a_file(archive);
      archive.values = Json::parse(archive.values.dump());
    }
    const NcsLedger copy = NcsLedger::load(archive, "ledger", archive.find("ledger"));
    EXPECT_EQ(copy.worst(kSix, 6, Tie::ratio), ledger.worst(kSix, 6, Tie::ratio));
    EXPECT_EQ(copy.scores(), ledger.scores());
    EXPECT_EQ(copy.ratios(), ledger.ratios());
    EXPECT_EQ(copy.accuracies(), ledger.accuracies());
  }
}

}  // namespace winnow::clipfl::clipfl_ncs_ledger_test
