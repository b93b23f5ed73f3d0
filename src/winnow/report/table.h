// Result tables: the summaries of many runs as rows against columns, mean ± standard deviation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "winnow/base/json.h"

namespace winnow {

// What a paper prints for a cell, as a table shows it: 81.2 percent.
struct Published {
  double value = 0.0;
  std::optional<double> deviation = {};
};
using PublishedByMetric = std::map<std::string, Published>;

// One run and the place of its numbers in the table.
struct RunResult {
  std::string row;
  std::string column;
  std::uint64_t seed = 0;
  Json summary;  // the content of the run's summary.json; null: it is not finished
  PublishedByMetric published = {};  // for its cell
};

struct TableOptions {
  std::vector<std::string> metrics;  // of table_metrics(); none means best beside last
  std::string format = "text";       // one of table_formats()
  bool colour = false;               // text only: the best cells in ANSI bold, not marked by '*'
  std::string rows_title = "method";
  std::vector<std::string> paper_metrics = {};  // whose published figures are shown
  bool by_cell = false;  // a line for each row and column that has a result or a published figure
};

// best, last, last10, top5, macro_f1, macro_precision, macro_recall (percent), participations,
// bytes (up + down), forward and backward (passes of an image through a network, by clients),
// seconds (wall time), flag_precision, flag_recall and flag_accuracy (percent). Besides these,
// cost@N: participations until the accuracy first reached N percent, which a summary holds under
// that name.
const std::vector<std::string>& table_metrics();
// The N of cost@N as a share, or nothing for another metric. Throws Error(kind usage) when N is not
// a number from 0 to 100.
std::optional<double> cost_target(const std::string& metric);

// Where the numbers of all metrics but cost@N lie in a summary, as JSON pointers, each once.
const std::vector<std::string>& table_keys();

// text, markdown, csv, latex, json.
const std::vector<std::string>& table_formats();

// The table as text that ends in a line feed.
// - Rows and columns appear in the order in which the results first name them. With several metrics
//   every metric is a group of columns titled "COLUMN metric (unit)"; with a single column label
//   the title is the metric alone, with a single metric the label.
// - A cell is the mean and the sample standard deviation (n - 1) over the finished runs of its row
//   and column that have the metric, the value alone for one run, and "-" for none. Where only some
//   of them have it, their number stands behind: "1200 ± 30 (2/3)"; and where some runs are not
//   finished, how many are: "82.10 ± 0.40 (2 of 3 done)".
// - Behind each column of a metric with published figures stand these and ours minus them.
// - by_cell: a line is called "ROW, COLUMN"; nothing is marked, since lines are not compared.
// - The best cells of a column are marked when two or more of its rows have values: the largest
//   accuracy or flag quality, the smallest participations, bytes or seconds. Cells whose
//   printed means are equal are tied, and all tied cells are marked. A cell that lacks a run,
//   because it is not finished or does not have the metric, is never the best and does not count.
//   In text a line below says what the mark means.
// - A run whose summary says `uses_ground_truth` is a bound: it is never the best and does not
//   count there, and a row of such runs alone is labelled "ROW (uses ground truth)".
// - csv and json are the long form row, column, metric, mean, std, runs, unfinished: the last two
//   are the runs in the mean and those that are not finished. Unmarked, shares in percent,
//   bytes as plain numbers, up to six decimals; what is missing is empty or null.
// Throws Error(kind usage) for an unknown metric or format, and Error(kind run) naming the run
// whose summary holds something other than a number.
std::string render_table(const std::vector<RunResult>& results, const TableOptions& options);

}  // namespace winnow
