// What Fed-NCL's server remembers between rounds: candidates, findings, archive.
#include <gtest/gtest.h>

#include <set>

#include "method/system/fedncl/federation.h"
#include "testing/support.h"
#include "winnow/method/system/fedncl/fedncl.h"

namespace winnow::fedncl::memory_test {

// Five clients of which the last stands out when `noisy`.
void set_noisy(Federation& federation, bool noisy) {
  federation.replies = with_losses({1.0, 1.0, 1.0, 1.0, noisy ? 5.0 : 1.0});
}

TEST(FedNclCandidates, AreFlaggedMoreThanHalfOfThePenaltyRounds) {  // N6
  for (const std::int64_t flags : {30, 31}) {
    Federation federation(state_of({0}), with_losses(std::vector<double>(5, 1.0)));
    federation.play_rounds(0, 60 - flags);
    set_noisy(federation, true);
    federation.play_rounds(60 - flags, 60);
    EXPECT_EQ(federation.method.correcting(),
              flags == 31 ? std::set<std::int64_t>{4} : std::set<std::int64_t>{});
  }
}

TEST(FedNclCandidates, JoinAsSoonAsTheyPassAndStay) {
  Federation federation(state_of({0}), with_losses(std::vector<double>(5, 1.0)),
                        {{"penalty_rounds", 4}});
  set_noisy(federation, true);
  federation.play_rounds(0, 2);
  EXPECT_TRUE(federation.method.correcting().empty()) << "2 of 4 is not more than half";
  federation.play(2);
  EXPECT_EQ(federation.method.correcting(), std::set<std::int64_t>{4});
  set_noisy(federation, false);
  federation.play_rounds(3, 12);
  EXPECT_EQ(federation.method.correcting(), std::set<std::int64_t>{4});
}

TEST(FedNclCandidates, AreNotCountedInTheRoundOfTheLimit) {
  Federation federation(state_of({0}), with_losses(std::vector<double>(5, 1.0)),
                        {{"penalty_rounds", 4}});
  federation.play_rounds(0, 2);
  set_noisy(federation, true);
  federation.play_rounds(2, 30);
  EXPECT_TRUE(federation.method.correcting().empty()) << "2 flags before round 4, 26 after";
  EXPECT_TRUE(federation.asked_to_correct().empty()) << "nobody to correct";
  EXPECT_EQ(federation.notes["corrected"], 0);
}

TEST(FedNclCandidates, CorrectFromTheRoundAfterTheLimit) {
  Federation federation(state_of({0}), with_losses(std::vector<double>(5, 1.0)),
                        {{"penalty_rounds", 4}});
  set_noisy(federation, true);
  for (std::int64_t round = 0; round < 8; ++round) {
    federation.play(round);
    EXPECT_EQ(federation.asked_to_correct(),
              round > 4 ? std::vector<std::int64_t>{4} : std::vector<std::int64_t>{})
        << round;
    EXPECT_EQ(federation.notes["corrected"], round > 4 ? 1 : 0);
  }
}

TEST(FedNclCandidates, AreNotAskedWithoutCorrection) {
  Federation federation(state_of({0}), with_losses(std::vector<double>(5, 1.0)),
                        {{"penalty_rounds", 4}, {"correction", false}});
  set_noisy(federation, true);
  federation.play_rounds(0, 8);
  EXPECT_EQ(federation.method.correcting(), std::set<std::int64_t>{4});
  EXPECT_TRUE(federation.asked_to_correct().empty());
}

TEST(FedNclCandidates, NeverExistWithoutPenaltyRounds) {
  Federation federation(state_of({0}), with_losses(std::vector<double>(5, 1.0)),
                        {{"penalty_rounds", 0}});
  set_noisy(federation, true);
  federation.play_rounds(0, 5);
  EXPECT_TRUE(federation.method.correcting().empty());
}

// Twenty clients, a quarter of them in a round, client 7 stands out. It takes part in about a
// quarter of the rounds, so an absolute share of one half cannot be passed.
struct Partial {
  explicit Partial(const Json& parameters)
      : federation(state_of({0}), with_losses(std::vector<double>(20, 1.0)), parameters, 0.25) {
    federation.replies[7].loss = 9.0;
  }
  std::int64_t play_until(std::int64_t rounds) {
    std::int64_t taken_part = 0;
    for (std::int64_t round = 0; round < rounds; ++round) {
      federation.play(round);
      for (const Json& client : federation.notes["clients"]) {
        taken_part += client == 7 ? 1 : 0;
      }
    }
    return taken_part;
  }
  Federation federation;
};

TEST(FedNclCandidates, RelativeCountsTheRoundsTakenPartIn) {
  Partial absolute(Json{{"penalty_rounds", 20}});
  const std::int64_t taken_part = absolute.play_until(20);
  ASSERT_GE(taken_part, 3);
  ASSERT_LT(taken_part, 11);
  EXPECT_TRUE(absolute.federation.method.correcting().empty());

  Partial relative(Json{{"penalty_rounds", 20}, {"candidates", "relative"}});
  relative.play_until(19);
  EXPECT_TRUE(relative.federation.method.correcting().empty()) << "decided once, at the end";
  relative.federation.play(19);
  EXPECT_EQ(relative.federation.method.correcting(), std::set<std::int64_t>{7});

  Partial strict(
      {{"penalty_rounds", 20}, {"candidates", "relative"}, {"min_participations", taken_part + 1}});
  strict.play_until(30);
  EXPECT_TRUE(strict.federation.method.correcting().empty()) << "too few participations";
}

TEST(FedNclFindings, AreTheClientsFlaggedMostOfTheRoundsSoFar) {
  Federation federation(state_of({0}), with_losses(std::vector<double>(5, 1.0)));
  EXPECT_FALSE(federation.method.findings().flagged.has_value()) << "nothing known yet";
  set_noisy(federation, true);
  federation.play_rounds(0, 2);
  EXPECT_EQ(federation.method.findings().flagged, std::vector<std::int64_t>{4});
  EXPECT_DOUBLE_EQ(federation.method.findings().scores.at("reliability").at(4), 5.0);
  set_noisy(federation, false);
  federation.play(2);
  EXPECT_EQ(federation.method.findings().flagged, std::vector<std::int64_t>{4});
  EXPECT_DOUBLE_EQ(federation.method.findings().scores.at("flag_share").at(4), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(federation.method.findings().scores.at("reliability").at(4), 1.0);
  federation.play(3);
  EXPECT_EQ(federation.method.findings().flagged, std::vector<std::int64_t>{}) << "2 of 4 is half";
  EXPECT_TRUE(federation.method.findings().noise_levels.empty());
}

// A candidate whose labels are corrected looks normal, so the rounds after penalty_rounds must not
// clear it; nor may they add somebody.
TEST(FedNclFindings, AreTheCandidatesOnceThePenaltyRoundsAreOver) {
  Federation federation(state_of({0}), with_losses(std::vector<double>(5, 1.0)),
                        {{"penalty_rounds", 4}});
  set_noisy(federation, true);
  federation.play_rounds(0, 3);
  EXPECT_EQ(federation.notes["candidates"], 1);
  EXPECT_EQ(federation.notes["candidate_clients"], Json::array({4}));
  set_noisy(federation, false);
  federation.play(3);
  EXPECT_EQ(federation.method.findings().flagged, std::vector<std::int64_t>{4});
  federation.replies[2].loss = 9.0;
  federation.play_rounds(4, 40);
  const Findings findings = federation.method.findings();
  EXPECT_EQ(findings.flagged, std::vector<std::int64_t>{4}) << "3 of 4 early, 3 of 40 in all";
  EXPECT_EQ(federation.notes["candidate_clients"], Json::array({4}));
  EXPECT_DOUBLE_EQ(findings.scores.at("flag_share").at(4), 3.0 / 40.0);
  EXPECT_DOUBLE_EQ(findings.scores.at("flag_share").at(2), 36.0 / 40.0);
  EXPECT_DOUBLE_EQ(findings.scores.at("flag_share_early").at(4), 3.0 / 4.0);
  EXPECT_DOUBLE_EQ(findings.scores.at("flag_share_early").at(2), 0.0);
}

TEST(FedNclFindings, FollowTheCandidateShareBeforeThat) {
  Federation strict(state_of({0}), with_losses(std::vector<double>(5, 1.0)),
                    {{"candidate_share", 0.8}});
  strict.play(0);
  set_noisy(strict, true);
  strict.play_rounds(1, 4);
  EXPECT_EQ(strict.method.findings().flagged, std::vector<std::int64_t>{}) << "3 of 4 is below 0.8";
  strict.play_rounds(4, 6);
  EXPECT_EQ(strict.method.findings().flagged, std::vector<std::int64_t>{4}) << "5 of 6";
}

TEST(FedNclFindings, WithoutPenaltyRoundsCountEveryRound) {
  Federation federation(state_of({0}), with_losses(std::vector<double>(5, 1.0)),
                        {{"penalty_rounds", 0}});
  set_noisy(federation, true);
  federation.play_rounds(0, 5);
  EXPECT_EQ(federation.method.findings().flagged, std::vector<std::int64_t>{4});
  EXPECT_FALSE(federation.method.findings().scores.contains("flag_share_early"));
}

TEST(FedNclArchive, RestoresEverythingThatLasts) {
  const Json parameters{{"penalty_rounds", 6}};
  Federation whole(state_of({0}), with_losses(std::vector<double>(5, 1.0)), parameters);
  set_noisy(whole, true);
  whole.play_rounds(0, 3);
  Archive archive;
  whole.method.save(archive);
  archive = out_of_a_file(archive);
  archive.values = Json::parse(archive.values.dump());  // as a checkpoint does

  Federation resumed(whole.global, whole.replies, parameters);
  resumed.method.load(archive);
  for (Federation* federation : {&whole, &resumed}) {
    federation->play_rounds(3, 8);
  }
  Archive finished;
  whole.method.save(finished);
  Federation reopened(whole.global, whole.replies, parameters);
  reopened.method.load(finished);
  EXPECT_EQ(reopened.method.findings().flagged, whole.method.findings().flagged);
  EXPECT_EQ(hash(resumed.global), hash(whole.global));
  EXPECT_EQ(resumed.asked_to_correct(), std::vector<std::int64_t>{4});
  EXPECT_EQ(resumed.method.correcting(), whole.method.correcting());
  EXPECT_EQ(resumed.method.findings().scores, whole.method.findings().scores);
  EXPECT_EQ(resumed.method.findings().flagged, whole.method.findings().flagged);
  Archive later;
  Archive expected;
  resumed.method.save(later);
  whole.method.save(expected);
  EXPECT_EQ(later.values, expected.values);
}

TEST(FedNclArchive, ForgetsWhatTheArchiveDoesNotHold) {
  Federation federation(state_of({0}), with_losses(std::vector<double>(5, 1.0)),
                        {{"penalty_rounds", 2}});
  Archive before;
  federation.method.save(before);
  set_noisy(federation, true);
  federation.play_rounds(0, 2);
  ASSERT_FALSE(federation.method.correcting().empty());
  federation.method.load(before);
  EXPECT_TRUE(federation.method.correcting().empty());
  EXPECT_FALSE(federation.method.findings().flagged.has_value());
  federation.play_rounds(0, 2);
  federation.method.load({});
  EXPECT_TRUE(federation.method.correcting().empty());
}

}  // namespace winnow::fedncl::memory_test
