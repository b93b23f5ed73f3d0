#include "winnow/judge/judge.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "run/small_run.h"

namespace winnow::judge_test {

// Two clients with four samples each; client 1 has two wrong labels.
World two_clients() {
  DataSet data = tiny_data(8, 4);
  data.train.labels = {0, 1, 2, 0, 0, 1, 2, 0};
  std::vector<ClientData> clients{{{0, 1, 2, 3}, {0, 1, 2, 0}}, {{4, 5, 6, 7}, {1, 1, 2, 2}}};
  Ledger ledger(1, 8, 2);
  ledger.add(LedgerClient{.client = 1, .name = "test", .wrong = 2, .samples = 4, .noisy = true});
  ledger.add(LedgerSample{.client = 1, .sample = 4, .from = 0, .to = 1});
  ledger.add(LedgerSample{.client = 1, .sample = 7, .from = 0, .to = 2});
  return {std::move(data), std::move(clients), std::move(ledger)};
}

TEST(Judge, SaysNothingWhereNothingIsClaimed) {
  EXPECT_EQ(judge(two_clients(), {}, {}), Json::object());
  EXPECT_EQ(judge_scores(two_clients(), {}), Json::object());
  EXPECT_EQ(judge_selection(two_clients(), {}, {0, 1}), std::nullopt);
}

TEST(Judge, MeasuresDetectionAgainstTheLedger) {
  const Json json = judge(two_clients(), {.flagged = std::vector<std::int64_t>{0, 1}}, {});
  EXPECT_EQ(json.at("detection").at("flag_precision"), 0.5);
  EXPECT_EQ(json.at("detection").at("flag_recall"), 1.0);
}

TEST(Judge, JudgesNothingWhereTheTruthIsUnknown) {
  World world = two_clients();
  world.truth_known = false;
  const Findings findings{.flagged = std::vector<std::int64_t>{1},
                          .noise_levels = {{1, 0.5}},
                          .scores = {{"lid", {{0, 1.0}, {1, 2.0}}}}};
  Traces traces;
  traces[1].labels = Labels{0, 1, 2, 2};
  traces[1].selected = std::vector<bool>{true, true, true, false};
  EXPECT_EQ(judge(world, findings, traces), Json({{"truth_unknown", true}}));
  EXPECT_EQ(judge_selection(world, traces, {0, 1}), std::nullopt);
  const Json claims = judge_clients(world, findings, {}, traces);
  EXPECT_EQ(claims, Json::parse(R"({"flagged": [1], "noise_levels": {"1": {"estimated": 0.5}},
      "scores": {"lid": {"by_client": {"0": 1.0, "1": 2.0}}}})"));
}

TEST(Judge, MeasuresNoiseLevelsAgainstTheLabelsInUse) {
  const World world = two_clients();
  const Findings findings{.noise_levels = {{0, 0.1}, {1, 0.5}}};
  EXPECT_NEAR(judge(world, findings, {}).at("noise_level_error").get<double>(), 0.05, 1e-12);
  Traces traces;
  traces[1].labels = Labels{0, 1, 2, 2};  // one of two repaired
  const Json json = judge(world, findings, traces);
  EXPECT_NEAR(json.at("noise_level_error").get<double>(), (0.1 + 0.25) / 2, 1e-12);
  EXPECT_EQ(json.at("relabel").at("wrong_to_right"), 1);
  EXPECT_EQ(json.at("relabel").at("right_to_wrong"), 0);
  EXPECT_EQ(json.at("relabel").at("wrong_before"), 2);
  EXPECT_EQ(json.at("relabel").at("wrong_now"), 1);
}

// Labels that are corrected anew in every training and not kept count as those in use.
TEST(Judge, MeasuresCorrectionsThatAreNotKept) {
  Traces traces;
  traces[1].last_labels = Labels{0, 1, 0, 2};  // one repaired, one spoilt
  const Json relabel = judge(two_clients(), {}, traces).at("relabel");
  EXPECT_EQ(relabel.at("wrong_to_right"), 1);
  EXPECT_EQ(relabel.at("right_to_wrong"), 1);
  EXPECT_EQ(relabel.at("wrong_now"), 2);
  const Json confusion = judge_clients(two_clients(), {}, {}, traces).at("confusion");
  EXPECT_EQ(confusion.at("after").at(2).at(0), 1);
  traces[1].labels = Labels{0, 1, 2, 0};
  EXPECT_EQ(judge(two_clients(), {}, traces).at("relabel").at("wrong_now"), 0)
      << "labels that are kept come first";
}

// spec: partitions M: the mean over the clients that chose
TEST(Judge, SelectionIsTheMeanOverTheClientsThatChose) {
  Traces traces;
  traces[0].selected = std::vector<bool>{true, true, false, false};  // LP 1, LR 1/2
  traces[1].selected = std::vector<bool>{true, true, true, false};   // LP 2/3, LR 1
  const auto both = judge_selection(two_clients(), traces, {0, 1});
  ASSERT_TRUE(both);
  EXPECT_NEAR(both->label_precision, (1.0 + 2.0 / 3.0) / 2, 1e-12);
  EXPECT_NEAR(both->label_recall, 0.75, 1e-12);
  EXPECT_NEAR(judge_selection(two_clients(), traces, {1})->label_recall, 1.0, 1e-12);
}

TEST(Judge, ScoresAreComparedWithTheNoise) {
  const Json json = judge_scores(
      two_clients(), {.scores = {{"lid", {{0, 1.0}, {1, 3.0}}},
                                 {"odd", {{0, std::numeric_limits<double>::quiet_NaN()}}}}});
  EXPECT_EQ(json.at("lid").at("by_client"), (Json{{"0", 1.0}, {"1", 3.0}}));
  EXPECT_NEAR(json.at("lid").at("correlation_with_noise").get<double>(), 1.0, 1e-12);
  EXPECT_EQ(json.at("lid").at("roc_area"), 1.0);
  EXPECT_EQ(json.at("odd"), (Json{{"by_client", Json::object()}}));
}

TEST(Judge, NoiseSharesCountWrongLabels) {
  EXPECT_EQ(noise_shares(two_clients()), (std::vector<double>{0.0, 0.5}));
}

TEST(Judge, TellsWhatIsKnownOfEveryClient) {
  const World world = two_clients();
  Findings findings{.flagged = std::vector<std::int64_t>{1}, .noise_levels = {{1, 0.5}}};
  findings.scores["lid"] = {{0, 1.0}, {1, 2.0}};
  Traces traces;
  traces[1].labels = Labels{0, 1, 2, 2};  // one of two repaired
  const Json json = judge_clients(world, findings, {}, traces);
  EXPECT_EQ(json.at("flagged"), Json({1}));
  EXPECT_EQ(json.at("noise_levels"), Json({{"1", {{"estimated", 0.5}, {"real", 0.25}}}}));
  EXPECT_EQ(json.at("scores").at("lid").at("by_client").at("1"), 2.0);
  // [true][label]: one 0 was given as 1 and is repaired, one was given as 2 and is not
  EXPECT_EQ(json.at("confusion").at("before").at(0).at(1), 1);
  EXPECT_EQ(json.at("confusion").at("before").at(0).at(2), 1);
  EXPECT_EQ(json.at("confusion").at("after").at(0).at(0), 3);
  EXPECT_EQ(json.at("confusion").at("after").at(0).at(1), 0);
}

TEST(Judge, WithoutRepairThereIsNoAfter) {
  const Json json = judge_clients(two_clients(), {}, {}, {});
  EXPECT_FALSE(json.contains("flagged"));
  EXPECT_FALSE(json.contains("noise_levels"));
  EXPECT_FALSE(json.contains("scores"));
  EXPECT_TRUE(json.at("confusion").contains("before"));
  EXPECT_FALSE(json.at("confusion").contains("after"));
}

TEST(Judge, TellsHowRightTheLabelsAreAtATime) {
  const World world = two_clients();
  Traces before;
  Traces now;
  now[1].labels = Labels{0, 1, 2, 2};  // one of two repaired
  // It suspected the two wrong ones of {1, 1, 2, 2} and a right one.
  now[1].suspected = std::vector<bool>{true, true, false, true};
  const Json json = judge_labels(world, before, now);
  EXPECT_EQ(json.at("levels"), Json({{"0", 0.0}, {"1", 0.25}}));
  EXPECT_EQ(json.at("splits"), Json({{"1", {2, 1, 0, 1}}})) << "against the labels of before";
  EXPECT_EQ(json.at("confusions").at("1").at(0), Json({1, 0, 1}));
  EXPECT_EQ(json.at("confusions").size(), 2U);
  before[1].labels = Labels{0, 1, 2, 2};
  EXPECT_EQ(judge_labels(world, before, now).at("splits"), Json({{"1", {1, 2, 0, 1}}}));
}

TEST(Judge, SeriesAreJudgedAsScoresAreAndLikenessIsRounded) {
  const Json json =
      judge_clients(two_clients(), {},
                    {.series = {{"lid", {{{0, 1.0}, {1, 3.0}}, {{0, 2.0}, {1, 1.0}}}}},
                     .likeness = Likeness{"logits", 2, {0, 1}, {{1.0, 0.123456}, {0.123456, 1.0}}}},
                    {});
  EXPECT_EQ(json.at("series").at("lid").at(0).at("roc_area"), 1.0);
  EXPECT_EQ(json.at("series").at("lid").at(1).at("roc_area"), 0.0);
  EXPECT_EQ(json.at("series").at("lid").at(1).at("by_client"), (Json{{"0", 2.0}, {"1", 1.0}}));
  EXPECT_EQ(json.at("likeness").at("values"), Json({{1.0, 0.1235}, {0.1235, 1.0}}));
}

}  // namespace winnow::judge_test
