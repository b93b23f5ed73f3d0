// The model of a result table: what stands in which cell, before it is written in a form.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/report/table.h"

namespace winnow::tables {

enum class Unit { percent, whole, bytes, seconds };

struct Metric {
  std::string name;
  std::string title;  // above a column
  Unit unit = Unit::whole;
  bool larger_is_better = false;
  std::vector<std::string> keys;  // where its addends lie in a summary
};

struct Cell {
  std::size_t runs = 0;  // that have the metric
  std::size_t finished = 0;
  std::size_t asked = 0;  // all
  double mean = 0.0;
  double deviation = 0.0;
  bool oracle = false;  // of a run that uses ground truth: a bound, never the best
  bool best = false;

  bool can_be_best() const { return runs > 0 && runs == asked && !oracle; }
};

// How the numbers of a column are printed.
struct NumberForm {
  std::string unit;  // "%", "MB"; none: "" (a count)
  double divisor = 1.0;
  int decimals = 0;
};

enum class ColumnKind { ours, paper, difference };

struct Column {
  std::string label;
  std::string title;  // without the unit
  Metric metric;
  ColumnKind kind = ColumnKind::ours;
  NumberForm form;
  std::vector<Cell> cells;  // one per row

  std::string heading() const {
    const bool bare = form.unit.empty() || kind == ColumnKind::difference;
    return bare ? title : fmt::format("{} ({})", title, form.unit);
  }
};

struct Table {
  std::string rows_title;
  std::vector<std::string> rows;
  std::vector<Column> columns;
};

// Throws Error(kind usage) for an unknown metric.
Metric find_metric(const std::string& name);

// As tables show it, shares in percent. Nothing when the run is not finished or does not have the
// metric: its summary lacks a key, or holds null for it. Throws Error(kind run) naming the run
// whose summary holds something other than a number.
std::optional<double> value_of(const Metric& metric, const RunResult& run);
bool uses_truth(const RunResult& run);
// What stands behind the name of a row that uses ground truth, in brackets.
inline constexpr std::string_view kTruthMark = "uses ground truth";

Table make_table(const std::vector<RunResult>& results, const std::vector<Metric>& metrics,
                 const TableOptions& options);

// A line for each row and column, in the order of rows, without those that nothing is known of.
std::vector<RunResult> one_column(const std::vector<RunResult>& results);

// "82.10 ± 0.40 (2 of 3 done)".
std::string cell_text(const Cell& cell, const Column& column);

// Labels come from files: a control character in one must not break a line or reach a terminal.
std::string one_line(std::string_view label);

// Columns on a screen: UTF-8 continuation bytes take none.
std::size_t width_of(std::string_view text);
// A label for a cell of a Markdown table.
std::string markdown_escaped(std::string_view label);
// Up to six decimals, so that the rounding noise of a mean does not show; "" for no number.
std::string plain_number(bool present, double value);

// The forms in which a table is written.
std::string render_text(const Table& table, bool colour);
std::string render_markdown(const Table& table);
std::string render_latex(const Table& table);
std::string render_csv(const Table& table);
std::string render_json(const Table& table);

}  // namespace winnow::tables
