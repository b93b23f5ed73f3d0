#include "winnow/report/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "testing/support.h"
#include "winnow/base/error.h"

namespace winnow::table_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RunResult run(const std::string& row, const std::string& column, Json summary) {
  return {row, column, 1, std::move(summary)};
}

std::vector<RunResult> with_values(const std::string& row, const std::string& column,
                                   const char* key, const std::vector<double>& values) {
  std::vector<RunResult> runs;
  runs.reserve(values.size());
  for (const double value : values) {
    runs.push_back(run(row, column, {{key, value}}));
  }
  return runs;
}

std::vector<RunResult> operator+(std::vector<RunResult> a, const std::vector<RunResult>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Two methods, two settings, one cell missing; clipfl is the better on c10.
std::vector<RunResult> small_case() {
  return with_values("fedavg", "c10", "last", {0.80, 0.82, 0.84}) +
         with_values("clipfl", "c10", "last", {0.85, 0.87}) +
         with_values("fedavg", "c100", "last", {0.4125});
}

std::string render(const std::vector<RunResult>& results, std::vector<std::string> metrics,
                   const std::string& format = "text") {
  TableOptions options;
  options.metrics = std::move(metrics);
  options.format = format;
  return render_table(results, options);
}

void expect_error(const std::vector<RunResult>& results, const TableOptions& options,
                  ErrorKind kind, const std::string& message, const std::string& hint) {
  try {
    render_table(results, options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_EQ(std::string(error.what()), message);
    EXPECT_EQ(error.hint(), hint);
  }
}

TEST(Table, NamesItsMetricsAndFormats) {
  EXPECT_THAT(table_metrics(),
              ElementsAre("best", "last", "last10", "top5", "macro_f1", "macro_precision",
                          "macro_recall", "participations", "bytes", "forward", "backward",
                          "seconds", "flag_precision", "flag_recall", "flag_accuracy"));
  EXPECT_THAT(table_formats(), ElementsAre("text", "markdown", "csv", "latex", "json"));
}

TEST(Table, TextIsAlignedUnderlinedAndStarsTheBest) {
  EXPECT_EQ(render(small_case(), {"last"}),
            "method       c10 (%)   c100 (%)\n"
            "------  -------------  --------\n"
            "fedavg  82.00 ± 2.00      41.25\n"
            "clipfl  86.00 ± 1.41*         -\n"
            "* best of its column\n");
}

TEST(Table, TextOnATerminalIsBoldWithoutAStar) {
  TableOptions options;
  options.metrics = {"last"};
  options.colour = true;
  EXPECT_EQ(render_table(small_case(), options),
            "method       c10 (%)  c100 (%)\n"
            "------  ------------  --------\n"
            "fedavg  82.00 ± 2.00     41.25\n"
            "clipfl  \x1b[1m86.00 ± 1.41\x1b[0m         -\n"
            "bold: best of its column\n");
}

TEST(Table, Markdown) {
  EXPECT_EQ(render(small_case(), {"last"}, "markdown"),
            "| method | c10 (%) | c100 (%) |\n"
            "| --- | ---: | ---: |\n"
            "| fedavg | 82.00 ± 2.00 | 41.25 |\n"
            "| clipfl | **86.00 ± 1.41** | - |\n");
}

TEST(Table, CsvIsLongUnmarkedAndLeavesTheMissingEmpty) {
  EXPECT_EQ(render(small_case(), {"last"}, "csv"),
            "row,column,metric,mean,std,runs,unfinished\n"
            "fedavg,c10,last,82,2,3,0\n"
            "fedavg,c100,last,41.25,,1,0\n"
            "clipfl,c10,last,86,1.414214,2,0\n"
            "clipfl,c100,last,,,0,0\n");
}

TEST(Table, LatexIsABooktabsTabular) {
  EXPECT_EQ(render(small_case(), {"last"}, "latex"),
            "\\begin{tabular}{lrr}\n"
            "\\toprule\n"
            "method & c10 (\\%) & c100 (\\%) \\\\\n"
            "\\midrule\n"
            "fedavg & 82.00 $\\pm$ 2.00 & 41.25 \\\\\n"
            "clipfl & \\textbf{86.00 $\\pm$ 1.41} & - \\\\\n"
            "\\bottomrule\n"
            "\\end{tabular}\n");
}

TEST(Table, JsonHoldsTheDataOfTheCsv) {
  EXPECT_EQ(render(with_values("fedavg", "c10", "last", {0.80, 0.82, 0.84}) +
                       with_values("clipfl", "c10", "last", {0.5}),
                   {"last"}, "json"),
            R"([
  {
    "row": "fedavg",
    "column": "c10",
    "metric": "last",
    "mean": 82,
    "std": 2,
    "runs": 3,
    "unfinished": 0
  },
  {
    "row": "clipfl",
    "column": "c10",
    "metric": "last",
    "mean": 50,
    "std": null,
    "runs": 1,
    "unfinished": 0
  }
]
)");
}

TEST(Table, FormatsEveryMetricInItsUnit) {
  const Json summary = {
      {"best", 0.91234},
      {"last", 0.9},
      {"last10", 0.899},
      {"participations", 600},
      {"bytes_up", 1'000'000},
      {"bytes_down", 500'000},
      {"forward_passes", 12'000},
      {"backward_passes", 9'000},
      {"wall_seconds", 12.34},
      {"detection", {{"flag_precision", 0.75}, {"flag_recall", 0.6666}, {"flag_accuracy", 0.9}}},
      {"top5", 0.995},
      {"macro_f1", 0.5},
      {"macro_precision", 0.625},
      {"macro_recall", 0.4}};
  EXPECT_EQ(
      render({run("fedcorr", "c10", summary)}, table_metrics(), "markdown"),
      "| method | best (%) | last (%) | last ten rounds (%) | top 5 (%) | macro F1 (%) | macro "
      "precision (%) | macro recall (%) | participations | traffic (MB) | forward passes | "
      "backward passes | wall time (s) | flag precision (%) | flag recall "
      "(%) | flag accuracy (%) |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | "
      "---: | ---: | ---: |\n"
      "| fedcorr | 91.23 | 90.00 | 89.90 | 99.50 | 50.00 | 62.50 | 40.00 | 600 | 1.5 | 12000 | "
      "9000 | 12.3 | 75.00 | 66.66 "
      "| 90.00 "
      "|\n");
}

TEST(Table, BytesAreForPeopleInTablesAndRawInCsvAndJson) {
  const std::vector<RunResult> results{
      run("fedavg", "c10", {{"bytes_up", 1'000'000'000'000'001}, {"bytes_down", 0}}),
      run("fedavg", "c10", {{"bytes_up", 1'000'000'000'000'003}, {"bytes_down", 0}})};
  EXPECT_THAT(render(results, {"bytes"}), HasSubstr("1000.0 ± 0.0\n"));
  EXPECT_THAT(render(results, {"bytes"}, "latex"), HasSubstr("method & traffic (TB) \\\\\n"));
  EXPECT_THAT(render(results, {"bytes"}, "csv"),
              HasSubstr("fedavg,c10,bytes,1000000000000002,1.414214,2,0\n"));
  EXPECT_THAT(render(results, {"bytes"}, "json"), HasSubstr("\"mean\": 1000000000000002,"));
}

TEST(Table, DeviationDividesByOneLessThanTheRuns) {
  // 10, 12, 17: mean 13, squares 9 + 1 + 16 = 26, 26 / 2 = 13, root 3.605551.
  EXPECT_EQ(
      render(with_values("a", "x", "participations", {10, 12, 17}), {"participations"}, "csv"),
      "row,column,metric,mean,std,runs,unfinished\na,x,participations,13,3.605551,3,0\n");
  EXPECT_THAT(render(with_values("a", "x", "participations", {10, 12, 17}), {"participations"}),
              HasSubstr("13 ± 4\n"));
}

TEST(Table, OneRunIsTheValueAlone) {
  EXPECT_EQ(render(with_values("fedavg", "c10", "best", {0.5}), {"best"}),
            "method  best (%)\n"
            "------  --------\n"
            "fedavg     50.00\n");
}

TEST(Table, EqualRunsHaveADeviationOfZero) {
  EXPECT_THAT(render(with_values("a", "x", "best", {0.1, 0.1, 0.1}), {"best"}, "csv"),
              HasSubstr("a,x,best,10,0,3,0\n"));
}

TEST(Table, AMetricARunDoesNotHaveIsADash) {
  const std::vector<RunResult> results{
      run("plain", "c10", Json::object()),
      run("null", "c10", {{"detection", {{"flag_precision", nullptr}}}}),
      run("half", "c10", {{"bytes_up", 7}}),
      run("not finite", "c10",
          {{"detection", {{"flag_precision", std::numeric_limits<double>::infinity()}}}}),
  };
  EXPECT_EQ(render(results, {"flag_precision", "bytes"}, "markdown"),
            "| method | flag precision (%) | traffic (B) |\n"
            "| --- | ---: | ---: |\n"
            "| plain | - | - |\n"
            "| null | - | - |\n"
            "| half | - | - |\n"
            "| not finite | - | - |\n");
}

TEST(Table, CountsOnlyTheRunsThatHaveTheMetric) {
  const std::vector<RunResult> results{
      run("a", "x", {{"best", 0.5}, {"detection", {{"flag_recall", 0.25}}}}),
      run("a", "x", {{"best", 0.7}}),
  };
  EXPECT_EQ(render(results, {"best", "flag_recall"}, "csv"),
            "row,column,metric,mean,std,runs,unfinished\n"
            "a,x,best,60,14.142136,2,0\n"
            "a,x,flag_recall,25,,1,0\n");
}

TEST(Table, TheLargestAccuracyPrecisionAndRecallAreBest) {
  for (const char* metric :
       {"best", "last", "last10", "flag_precision", "flag_recall", "flag_accuracy"}) {
    const auto summary = [&](double value) -> Json {
      return {{metric, value}, {"detection", {{metric, value}}}};
    };
    EXPECT_THAT(
        render({run("low", "x", summary(0.1)), run("high", "x", summary(0.2))}, {metric},
               "markdown"),
        ::testing::ContainsRegex("\\| low \\| [0-9.]+ \\|\n\\| high \\| \\*\\*[0-9.]+\\*\\* \\|\n"))
        << metric;
  }
}

TEST(Table, TheSmallestCostIsBest) {
  for (const char* metric : {"participations", "bytes", "seconds"}) {
    const auto summary = [](double value) -> Json {
      return {{"participations", value},
              {"bytes_up", value},
              {"bytes_down", value},
              {"wall_seconds", value}};
    };
    EXPECT_THAT(
        render({run("low", "x", summary(1)), run("high", "x", summary(2))}, {metric}, "markdown"),
        ::testing::ContainsRegex(
            "\\| low \\| \\*\\*[0-9. B]+\\*\\* \\|\n\\| high \\| [0-9. B]+ \\|\n"))
        << metric;
  }
}

TEST(Table, AllTiedCellsAreBest) {
  // 0.82 and the mean of .80, .82, .84 differ in the last bit and print the same.
  EXPECT_EQ(render(with_values("a", "x", "best", {0.80, 0.82, 0.84}) +
                       with_values("b", "x", "best", {0.82}) + with_values("c", "x", "best", {0.1}),
                   {"best"}),
            "method      best (%)\n"
            "------  -------------\n"
            "a       82.00 ± 2.00*\n"
            "b              82.00*\n"
            "c              10.00\n"
            "* best of its column\n");
}

// spec: baselines 27
TEST(Table, ABoundThatUsesGroundTruthSaysSoAndIsNeverTheBest) {
  const RunResult bound = run("oracle", "c", {{"last", 0.9}, {"uses_ground_truth", true}});
  const std::vector<RunResult> others =
      with_values("fedavg", "c", "last", {0.7}) + with_values("clipfl", "c", "last", {0.8});
  EXPECT_EQ(render(others + std::vector{bound}, {"last"}, "markdown"),
            "| method | last (%) |\n"
            "| --- | ---: |\n"
            "| fedavg | 70.00 |\n"
            "| clipfl | **80.00** |\n"
            "| oracle (uses ground truth) | 90.00 |\n");
  EXPECT_EQ(render(with_values("fedavg", "c", "last", {0.7}) + std::vector{bound}, {"last"}, "csv"),
            "row,column,metric,mean,std,runs,unfinished\n"
            "fedavg,c,last,70,,1,0\n"
            "oracle (uses ground truth),c,last,90,,1,0\n");
  EXPECT_THAT(render(with_values("fedavg", "c", "last", {0.7}) + std::vector{bound}, {"last"}),
              Not(HasSubstr("*")))
      << "one contender is no competition";
}

TEST(Table, MarksARowOnceAndOnlyWhereAllOfItUsesGroundTruth) {
  const auto bound = [](const std::string& row, const std::string& column) {
    return run(row, column, {{"last", 0.9}, {"uses_ground_truth", true}});
  };
  const std::vector<RunResult> results{
      bound("oracle (uses ground truth)", "c"),
      bound("rho 0.5", "oracle"),
      run("rho 0.5", "fedavg", {{"last", 0.5}}),
      bound("unfinished", "oracle"),
      run("unfinished", "fedavg", nullptr),
      run("not begun", "c", nullptr),
      run("no", "c", {{"last", 0.1}, {"uses_ground_truth", false}})};
  const std::string text = render(results, {"last"}, "csv");
  EXPECT_THAT(text, HasSubstr("\noracle (uses ground truth),c,"));
  EXPECT_THAT(text, HasSubstr("\nrho 0.5,oracle,"));
  EXPECT_THAT(text, HasSubstr("\nunfinished (uses ground truth),oracle,"));
  EXPECT_THAT(text, HasSubstr("\nnot begun,c,"));
  EXPECT_THAT(text, HasSubstr("\nno,c,"));
}

TEST(Table, FindsThePublishedFigureOfAMarkedRow) {
  TableOptions options;
  options.metrics = {"last"};
  options.format = "csv";
  options.paper_metrics = {"last"};
  RunResult bound = run("oracle", "c", {{"last", 0.9}, {"uses_ground_truth", true}});
  bound.published["last"] = {88.0};
  EXPECT_EQ(render_table({bound}, options),
            "row,column,metric,mean,std,runs,unfinished\n"
            "oracle (uses ground truth),c,last,90,,1,0\n"
            "oracle (uses ground truth),c,last paper,88,,1,0\n"
            "oracle (uses ground truth),c,last difference,2,,1,0\n");
}

TEST(Table, AColumnWithOneValueHasNoBest) {
  EXPECT_THAT(render(with_values("a", "x", "best", {0.5}) + with_values("b", "y", "best", {0.6}),
                     {"best"}, "markdown"),
              Not(HasSubstr("**")));
}

TEST(Table, SeveralMetricsAreGroupsOfColumns) {
  const auto summary = [](double best, double last) -> Json {
    return {{"best", best}, {"last", last}};
  };
  const std::vector<RunResult> results{run("fedavg", "iid", summary(0.9, 0.8)),
                                       run("fedavg", "skew", summary(0.7, 0.6))};
  EXPECT_EQ(render(results, {"last", "best"}),
            "method  iid last (%)  skew last (%)  iid best (%)  skew best (%)\n"
            "------  ------------  -------------  ------------  -------------\n"
            "fedavg         80.00          60.00         90.00          70.00\n");
  EXPECT_EQ(render({results[0]}, {"last", "best"}),
            "method  last (%)  best (%)\n"
            "------  --------  --------\n"
            "fedavg     80.00     90.00\n");
}

TEST(Table, WithoutMetricsShowsBestBesideLast) {
  EXPECT_EQ(render({run("fedavg", "c10", {{"best", 0.9}, {"last", 0.8}})}, {}, "csv"),
            "row,column,metric,mean,std,runs,unfinished\n"
            "fedavg,c10,best,90,,1,0\n"
            "fedavg,c10,last,80,,1,0\n");
}

TEST(Table, RowsAndColumnsKeepTheOrderInWhichTheyAreFirstSeen) {
  EXPECT_EQ(render(with_values("z", "y", "best", {0.1}) + with_values("a", "x", "best", {0.2}) +
                       with_values("z", "b", "best", {0.3}) + with_values("a", "y", "best", {0.1}),
                   {"best"}, "markdown"),
            "| method | y (%) | x (%) | b (%) |\n"
            "| --- | ---: | ---: | ---: |\n"
            "| z | **10.00** | - | 30.00 |\n"
            "| a | **10.00** | 20.00 | - |\n");
}

TEST(Table, CountsCharactersNotBytesWhenAligning) {
  EXPECT_EQ(render(with_values("größe ± 1", "β", "best", {0.1}) +
                       with_values("b", "βββββββ", "best", {0.2}),
                   {"best"}),
            "method     β (%)  βββββββ (%)\n"
            "---------  -----  -----------\n"
            "größe ± 1  10.00            -\n"
            "b              -        20.00\n");
}

TEST(Table, CsvQuotesCommasQuotesAndLineFeeds) {
  EXPECT_EQ(render(with_values("a, \"b\"", "two\nlines", "best", {0.5}), {"best"}, "csv"),
            "row,column,metric,mean,std,runs,unfinished\n"
            "\"a, \"\"b\"\"\",\"two\nlines\",best,50,,1,0\n");
}

TEST(Table, LatexEscapesWhatItWouldActOn) {
  const std::string text = render(with_values("a_b & 5% ± 1", "x", "best", {0.5}) +
                                      with_values("[1] {$#~^\\} <|>*", "x^2", "best", {0.5}),
                                  {"best"}, "latex");
  EXPECT_THAT(text, HasSubstr("method & x (\\%) & x\\textasciicircum{}2 (\\%) \\\\\n"));
  EXPECT_THAT(text, HasSubstr("\na\\_b \\& 5\\% $\\pm$ 1 & 50.00 & - \\\\\n"));
  EXPECT_THAT(text, HasSubstr("\n{[}1] \\{\\$\\#\\textasciitilde{}\\textasciicircum{}"
                              "\\textbackslash{}\\} \\textless{}\\textbar{}\\textgreater{}{*} & "));
}

TEST(Table, MarkdownKeepsBarsAndStarsInsideTheirCell) {
  EXPECT_THAT(render(with_values("a|b *c*", "x", "best", {0.5}), {"best"}, "markdown"),
              HasSubstr("| a\\|b \\*c\\* | 50.00 |\n"));
}

TEST(Table, ControlCharactersInLabelsDoNotReachTheTerminal) {
  EXPECT_EQ(render(with_values("a\x1b[1m\nb", "x", "best", {0.5}), {"best"}),
            "method   best (%)\n"
            "-------  --------\n"
            "a [1m b     50.00\n");
}

TEST(Table, JsonReplacesBytesThatAreNotText) {
  EXPECT_THAT(render(with_values("a\xff", "x", "best", {0.5}), {"best"}, "json"),
              HasSubstr("\"row\": \"a\xef\xbf\xbd\""));
}

TEST(Table, TheTitleOfTheRowsCanBeChosen) {
  TableOptions options;
  options.rows_title = "base_method";
  options.format = "latex";
  EXPECT_THAT(render_table(small_case(), options), HasSubstr("\nbase\\_method & c10 best (\\%) &"));
}

TEST(Table, WithoutRunsIsAHeaderAlone) {
  EXPECT_EQ(render({}, {"best"}), "method\n------\n");
  EXPECT_EQ(render({}, {"best"}, "csv"), "row,column,metric,mean,std,runs,unfinished\n");
  EXPECT_EQ(render({}, {"best"}, "json"), "[]\n");
}

TEST(Table, PublishedFiguresAndTheDifferenceStandBesideOurs) {
  std::vector<RunResult> results;
  for (const auto& [row, best] : {std::pair{"fedavg", 0.80}, {"fedcorr", 0.90}, {"own", 0.70}}) {
    results.push_back({row, "IID", 1, Json{{"best", best}, {"last", best}}});
  }
  TableOptions options{.metrics = {"best", "last"}, .format = "markdown"};
  options.paper_metrics = {"best"};
  results[0].published["best"] = {81.22};
  results[1].published["best"] = {88.5, 0.4};
  EXPECT_EQ(render_table(results, options),
            "| method | best (%) | best paper (%) | difference | last (%) |\n"
            "| --- | ---: | ---: | ---: | ---: |\n"
            "| fedavg | 80.00 | 81.22 | -1.22 | 80.00 |\n"
            "| fedcorr | **90.00** | 88.50 ± 0.40 | +1.50 | **90.00** |\n"
            "| own | 70.00 | - | - | 70.00 |\n");
  options.format = "csv";
  EXPECT_NE(render_table(results, options).find("fedavg,IID,best difference,-1.22,,1,0\n"),
            std::string::npos);
}

TEST(Table, SeveralMetricsHavePublishedFigures) {
  std::vector<RunResult> results{
      {"clipfl", "IID", 1, Json{{"last", 0.8}, {"detection", {{"flag_precision", 0.5}}}}}};
  results[0].published = {{"last", {79.0}}, {"flag_precision", {75.0}}};
  TableOptions options{.metrics = {"last", "flag_precision"}, .format = "markdown"};
  options.paper_metrics = {"last", "flag_precision"};
  EXPECT_EQ(render_table(results, options),
            "| method | last (%) | last paper (%) | difference | flag precision (%) | flag "
            "precision paper "
            "(%) | difference |\n"
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            "| clipfl | 80.00 | 79.00 | +1.00 | 50.00 | 75.00 | -25.00 |\n");
}

TEST(Table, ByCellHasALineForEachRowAndColumnThatIsKnown) {
  std::vector<RunResult> results{{"a", "x", 1, Json{{"best", 0.5}}},
                                 {"b", "x", 1, nullptr},
                                 {"a", "y", 1, nullptr},
                                 {"a", "y", 2, Json{{"best", 0.75}}},
                                 {"c", "x", 1, nullptr}};
  results[1].published["best"] = {60.0};
  TableOptions options{.metrics = {"best"}, .format = "markdown"};
  options.paper_metrics = {"best"};
  options.by_cell = true;
  EXPECT_EQ(render_table(results, options),
            "| method | best (%) | best paper (%) | difference |\n"
            "| --- | ---: | ---: | ---: |\n"
            "| a, x | 50.00 | - | - |\n"
            "| a, y | 75.00 (1 of 2 done) | - | - |\n"
            "| b, x | - (0 of 1 done) | 60.00 | - |\n");
}

TEST(Table, CostSaysHowManyRunsReachedTheTarget) {
  std::vector<RunResult> results{{"a", "", 1, Json{{"cost@80", 100}}},
                                 {"a", "", 2, Json{{"cost@80", 120}}},
                                 {"a", "", 3, Json{{"cost@80", nullptr}}},
                                 {"b", "", 1, Json{{"cost@80", nullptr}}}};
  EXPECT_EQ(render_table(results, {.metrics = {"cost@80"}, .format = "markdown"}),
            "| method | cost@80 |\n| --- | ---: |\n| a | 110 ± 14 (2/3) |\n| b | - |\n");
  EXPECT_EQ(error_text([&] { render_table(results, {.metrics = {"cost@much"}}); }),
            "metric 'cost@much': expected an accuracy in percent, such as cost@80");
}

// Two of three seeds of the best method are done, and one of another has just begun.
std::vector<RunResult> unfinished_case() {
  return with_values("fedavg", "c", "last", {0.80, 0.82}) +
         with_values("clipfl", "c", "last", {0.95, 0.97}) +
         std::vector{run("clipfl", "c", nullptr), run("fedcorr", "c", nullptr)} +
         with_values("fedprox", "c", "last", {0.70});
}

TEST(Table, WhatIsNotFinishedIsCountedAndNeverTheBest) {
  EXPECT_EQ(render(unfinished_case(), {"last"}),
            "method                     last (%)\n"
            "-------  ---------------------------\n"
            "fedavg                 81.00 ± 1.41*\n"
            "clipfl   96.00 ± 1.41 (2 of 3 done)\n"
            "fedcorr             - (0 of 1 done)\n"
            "fedprox                       70.00\n"
            "* best of its column\n");
  EXPECT_THAT(render(unfinished_case(), {"last"}, "markdown"),
              HasSubstr("| fedavg | **81.00 ± 1.41** |\n"
                        "| clipfl | 96.00 ± 1.41 (2 of 3 done) |\n"
                        "| fedcorr | - (0 of 1 done) |\n"));
  EXPECT_THAT(render(unfinished_case(), {"last"}, "latex"),
              HasSubstr("clipfl & 96.00 $\\pm$ 1.41 (2 of 3 done) \\\\\n"));
  EXPECT_THAT(render(unfinished_case(), {"last"}, "csv"),
              HasSubstr("clipfl,c,last,96,1.414214,2,1\nfedcorr,c,last,,,0,1\n"));
  const Json json = Json::parse(render(unfinished_case(), {"last"}, "json"));
  EXPECT_EQ(json.at(1).at("runs"), 2);
  EXPECT_EQ(json.at(1).at("unfinished"), 1);
  EXPECT_TRUE(json.at(2).at("mean").is_null());
}

TEST(Table, AMeanThatLacksARunIsNotTheBest) {
  const std::vector<RunResult> results{
      run("lucky", "", {{"cost@80", 10}}), run("lucky", "", {{"cost@80", nullptr}}),
      run("lucky", "", nullptr), run("steady", "", {{"cost@80", 200}}),
      run("slow", "", {{"cost@80", 300}})};
  EXPECT_EQ(render(results, {"cost@80"}, "markdown"),
            "| method | cost@80 |\n| --- | ---: |\n| lucky | 10 (1/2, 2 of 3 done) |\n"
            "| steady | **200** |\n| slow | 300 |\n");
}

TEST(Table, RefusesAnUnknownMetric) {
  TableOptions options;
  options.metrics = {"last", "flag_presicion"};
  expect_error({}, options, ErrorKind::usage, "unknown metric 'flag_presicion'",
               "did you mean 'flag_precision'?");
  options.metrics = {"precision"};  // as it was called before
  expect_error({}, options, ErrorKind::usage, "unknown metric 'precision'",
               "did you mean 'flag_precision'?");
  options.metrics = {"detected"};
  expect_error({}, options, ErrorKind::usage, "unknown metric 'detected'",
               "it is called flag_accuracy now");
  options.metrics = {"watermelons"};
  expect_error({}, options, ErrorKind::usage, "unknown metric 'watermelons'",
               "known: best, last, last10, top5, macro_f1, macro_precision, macro_recall, "
               "participations, bytes, forward, backward, seconds, flag_precision, flag_recall, "
               "flag_accuracy");
}

TEST(Table, RefusesAnUnknownFormat) {
  TableOptions options;
  options.format = "markdwn";
  expect_error({}, options, ErrorKind::usage, "unknown table format 'markdwn'",
               "did you mean 'markdown'?");
  options.format = "spreadsheet";
  expect_error({}, options, ErrorKind::usage, "unknown table format 'spreadsheet'",
               "known: text, markdown, csv, latex, json");
}

TEST(Table, RefusesASummaryWhoseMetricIsNotANumber) {
  TableOptions options;
  options.metrics = {"best"};
  expect_error({{"fedavg", "c10", 3, {{"best", "high"}}}}, options, ErrorKind::run,
               "summary of run 'fedavg' / 'c10', seed 3: best: expected a number, found string",
               "");
  options.metrics = {"flag_precision"};
  expect_error(
      {{"fedavg", "c10", 3, {{"detection", {{"flag_precision", true}}}}}}, options, ErrorKind::run,
      "summary of run 'fedavg' / 'c10', seed 3: detection/flag_precision: expected a number, "
      "found boolean",
      "");
}

}  // namespace winnow::table_test
