#include "winnow/sweep/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/small_run.h"

namespace winnow::results_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ResultLine line(const std::string& row, std::uint64_t seed, Json summary) {
  return {row, "x, \"y\"", seed, "0123456789abcdef", std::move(summary)};
}

std::vector<ResultLine> read_text(const std::string& text) {
  const TestFolder folder;
  write_file_whole(folder / "r.csv", text);
  return read_results(folder / "r.csv");
}

std::string read_error(const std::string& text) {
  const std::string error = error_text([&] { read_text(text); });
  return error.substr(error.find("r.csv:") + 6);
}

TEST(Results, AreReadBackAsWritten) {
  const Json summary{
      {"best", 0.9316},          {"last10", nullptr},
      {"participations", 17000}, {"detection", {{"flag_precision", 0.95}, {"flag_recall", 1.0}}},
      {"cost@80", 1234.0},       {"uses_ground_truth", true},
      {"device", "cuda:0"},      {"precision", "bf16"},
      {"model_hash", "aa"},      {"lanes", 20}};
  const std::vector<ResultLine> read =
      read_text(write_results({line("FedCorr", 2, summary)}, {"cost@80"}));
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].row, "FedCorr");
  EXPECT_EQ(read[0].column, "x, \"y\"");
  EXPECT_EQ(read[0].seed, 2U);
  EXPECT_EQ(read[0].cell, "0123456789abcdef");
  EXPECT_EQ(read[0].summary.at("best"), 0.9316);
  EXPECT_EQ(read[0].summary.at("detection"), summary.at("detection"));
  EXPECT_EQ(read[0].summary.at("cost@80"), 1234.0);
  EXPECT_EQ(read[0].summary.at("uses_ground_truth"), true);
  EXPECT_EQ(read[0].summary.at("precision"), "bf16");
  EXPECT_FALSE(read[0].summary.contains("last10")) << "what was not measured is not there";
  EXPECT_FALSE(read[0].summary.contains("lanes")) << "what no table needs is not kept";
}

TEST(Results, OfEarlierVersionsHaveOtherNamesForTheQualityOfFlags) {
  const std::vector<ResultLine> read = read_text(
      "row,column,seed,cell,detection/precision,detection/recall,detection/accuracy,precision\n"
      "a,b,1,c,0.95,1.0,0.8,tf32\n");
  EXPECT_EQ(read.at(0).summary.at("detection"),
            Json::parse(R"({"flag_precision": 0.95, "flag_recall": 1.0, "flag_accuracy": 0.8})"));
  EXPECT_EQ(read.at(0).summary.at("precision"), "tf32");
}

TEST(Results, WhatIsNotAResultsFileIsRefused) {
  EXPECT_THAT(read_error(""), HasSubstr("1: expected a header with a column 'row'"));
  EXPECT_THAT(read_error("row,column,seed\n"),
              HasSubstr("1: expected a header with a column 'cell'"));
  const std::string header = "row,column,seed,cell,best\n";
  EXPECT_THAT(read_error(header + "a,b,1,c\n"), HasSubstr("2: 4 fields, but the header has 5"));
  EXPECT_THAT(read_error(header + "a,b,-1,c,0.5\n"), HasSubstr("2: seed = '-1': expected a count"));
  EXPECT_THAT(read_error(header + "a,b,1,c,0.5\na,b,1,c,high\n"),
              HasSubstr("3: best = 'high': expected a number"));
  EXPECT_THAT(read_error("row,column,seed,cell,best,best\n"), HasSubstr("is there twice"));
  EXPECT_THAT(read_error("row,column,seed,cell,a/b,a//c\n"), HasSubstr("is not the name"));
  EXPECT_THAT(read_error("row,column,seed,cell,a,a/b\na,b,1,c,1,2\n"),
              HasSubstr("2: the columns 'a/b' and one it lies in are both there"));
}

TEST(Results, JoinASweepByCellAndKeepPrecisionsApart) {
  Sweep sweep;
  for (const std::uint64_t seed : {1, 2, 3}) {
    sweep.runs.push_back({"id", "FedAvg", "x, \"y\"", seed, "0123456789abcdef", {}});
  }
  const auto result = [](std::uint64_t seed, double best, const char* precision) {
    return line("FedAvg", seed, {{"best", best}, {"precision", precision}});
  };
  ResultLine stale = result(3, 0.1, "bf16");
  stale.cell = "of another setting";
  const std::vector<ResultLine> lines{result(1, 0.5, "bf16"), result(2, 0.6, "bf16"),
                                      result(1, 0.7, "tf32"), stale};
  const std::vector<RunResult> joined = join_results(sweep, lines);
  std::vector<std::string> shown;
  for (const RunResult& run : joined) {
    shown.push_back(run.row + " " + std::to_string(run.seed) + " " +
                    (run.summary.is_null() ? "-" : run.summary.at("best").dump()));
  }
  EXPECT_THAT(shown,
              ElementsAre("FedAvg 1 0.5", "FedAvg 2 0.6", "FedAvg 3 -", "FedAvg (tf32) 1 0.7"));
  EXPECT_TRUE(has_result(lines, sweep.runs[0]));
  EXPECT_FALSE(has_result(lines, sweep.runs[2]));
  EXPECT_THAT(error_text([&] {
                join_results(sweep, {lines[0], lines[0]});
              }),
              HasSubstr("two results of 'FedAvg' / 'x, \"y\"', seed 1, in bf16"));
}

}  // namespace winnow::results_test
