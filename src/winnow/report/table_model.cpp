#include "winnow/report/table_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow {
namespace tables {
namespace {

const std::vector<Metric>& metrics_known() {
  static const std::vector<Metric> known{
      {"best", "best", Unit::percent, true, {"/best"}},
      {"last", "last", Unit::percent, true, {"/last"}},
      {"last10", "last ten rounds", Unit::percent, true, {"/last10"}},
      {"top5", "top 5", Unit::percent, true, {"/top5"}},
      {"macro_f1", "macro F1", Unit::percent, true, {"/macro_f1"}},
      {"macro_precision", "macro precision", Unit::percent, true, {"/macro_precision"}},
      {"macro_recall", "macro recall", Unit::percent, true, {"/macro_recall"}},
      {"participations", "participations", Unit::whole, false, {"/participations"}},
      {"bytes", "traffic", Unit::bytes, false, {"/bytes_up", "/bytes_down"}},
      {"forward", "forward passes", Unit::whole, false, {"/forward_passes"}},
      {"backward", "backward passes", Unit::whole, false, {"/backward_passes"}},
      {"seconds", "wall time", Unit::seconds, false, {"/wall_seconds"}},
      {"flag_precision", "flag precision", Unit::percent, true, {"/detection/flag_precision"}},
      {"flag_recall", "flag recall", Unit::percent, true, {"/detection/flag_recall"}},
      {"flag_accuracy", "flag accuracy", Unit::percent, true, {"/detection/flag_accuracy"}},
  };
  return known;
}

// The label of a row as a table shows it: one whose runs all use ground truth says so (spec:
// baselines 27).
std::string shown_row(const std::string& row, const std::vector<RunResult>& results) {
  bool oracle = false;
  for (const RunResult& run : results) {
    if (run.row == row && !run.summary.is_null()) {
      if (!uses_truth(run)) {
        return row;
      }
      oracle = true;
    }
  }
  return oracle && row.find(kTruthMark) == std::string::npos
             ? fmt::format("{} ({})", row, kTruthMark)
             : row;
}

Cell make_cell(const Metric& metric, std::span<const RunResult* const> runs) {
  std::vector<double> values;
  for (const RunResult* run : runs) {
    if (const auto value = value_of(metric, *run)) {
      values.push_back(*value);
    }
  }
  Cell cell;
  cell.oracle = std::ranges::any_of(runs, [](const RunResult* run) { return uses_truth(*run); });
  cell.runs = values.size();
  cell.finished = static_cast<std::size_t>(
      std::ranges::count_if(runs, [](const RunResult* run) { return !run->summary.is_null(); }));
  cell.asked = runs.size();
  if (values.empty()) {
    return cell;
  }
  for (const double value : values) {
    cell.mean += value / static_cast<double>(values.size());
  }
  if (values.size() > 1) {
    double squares = 0.0;
    for (const double value : values) {
      squares += (value - cell.mean) * (value - cell.mean);
    }
    cell.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  }
  return cell;
}

// One unit for a whole column of bytes, in which its largest number has one to three digits.
NumberForm byte_form(const std::vector<Cell>& cells) {
  constexpr std::array<const char*, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
  double largest = 0.0;
  for (const Cell& cell : cells) {
    largest = std::max(largest, cell.mean);
  }
  std::size_t unit = 0;
  double divisor = 1.0;
  while (largest / divisor >= 1000.0 && unit + 1 < kUnits.size()) {
    divisor *= 1000.0;
    ++unit;
  }
  return {kUnits[unit], divisor, unit == 0 ? 0 : 1};
}

NumberForm form_of(Unit unit, const std::vector<Cell>& cells) {
  switch (unit) {
    case Unit::percent:
      return {"%", 1.0, 2};
    case Unit::bytes:
      return byte_form(cells);
    case Unit::seconds:
      return {"s", 1.0, 1};
    case Unit::whole:
      break;
  }
  return {"", 1.0, 0};
}

std::string value_text(double value, const NumberForm& form) {
  return fmt::format("{:.{}f}", value / form.divisor, form.decimals);
}

// Ties are decided by the printed mean: a reader must not see two equal numbers and one mark.
void mark_best(Column& column) {
  const Cell* best = nullptr;
  std::size_t contenders = 0;
  for (const Cell& cell : column.cells) {
    if (!cell.can_be_best()) {
      continue;
    }
    ++contenders;
    if (best == nullptr ||
        (column.metric.larger_is_better ? cell.mean > best->mean : cell.mean < best->mean)) {
      best = &cell;
    }
  }
  if (contenders < 2) {
    return;
  }
  const std::string printed = value_text(best->mean, column.form);
  for (Cell& cell : column.cells) {
    cell.best = cell.can_be_best() && value_text(cell.mean, column.form) == printed;
  }
}

// Labels in first-seen order, each with its place.
class LabelOrder {
 public:
  std::size_t add(const std::string& label) {
    const auto [entry, is_new] = places_.try_emplace(label, all_.size());
    if (is_new) {
      all_.push_back(label);
    }
    return entry->second;
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
  std::unordered_map<std::string, std::size_t> places_;
};

std::string column_title(const std::string& label, const Metric& metric, bool only_label,
                         bool only_metric) {
  if (only_label) {
    return metric.title;
  }
  return only_metric ? label : fmt::format("{} {}", label, metric.title);
}

using RunsOfCell = std::vector<const RunResult*>;

// The published figures of the column just made, and ours minus them. `cells` has the runs of each
// of its rows.
void add_published(std::span<const RunsOfCell> cells, Table& table) {
  const Column ours = table.columns.back();
  Column theirs{ours.label,  fmt::format("{} paper", ours.title),
                ours.metric, ColumnKind::paper,
                ours.form,   {}};
  Column difference{ours.label, "difference", ours.metric, ColumnKind::difference, ours.form, {}};
  for (std::size_t r = 0; r < cells.size(); ++r) {
    const auto found = std::ranges::find_if(
        cells[r], [&](const RunResult* run) { return run->published.contains(ours.metric.name); });
    const bool known = found != cells[r].end();
    const bool both = known && ours.cells[r].runs > 0;
    const Published figure = known ? (*found)->published.at(ours.metric.name) : Published{};
    theirs.cells.push_back({.runs = known ? (figure.deviation ? 2U : 1U) : 0U,
                            .mean = figure.value,
                            .deviation = figure.deviation.value_or(0.0)});
    difference.cells.push_back(
        {.runs = both ? 1U : 0U, .mean = both ? ours.cells[r].mean - figure.value : 0.0});
  }
  table.columns.push_back(std::move(theirs));
  table.columns.push_back(std::move(difference));
}

}  // namespace

std::optional<double> value_of(const Metric& metric, const RunResult& run) {
  double sum = 0.0;
  for (const std::string& key : metric.keys) {
    const Json::json_pointer pointer(key);
    if (!run.summary.contains(pointer) || run.summary.at(pointer).is_null()) {
      return std::nullopt;
    }
    const Json& value = run.summary.at(pointer);
    if (!value.is_number()) {
      throw Error(
          ErrorKind::run,
          fmt::format("summary of run '{}' / '{}', seed {}: {}: expected a number, found {}",
                      one_line(run.row), one_line(run.column), run.seed, key.substr(1),
                      value.type_name()));
    }
    sum += value.get<double>();
  }
  if (!std::isfinite(sum)) {
    return std::nullopt;
  }
  return metric.unit == Unit::percent ? 100.0 * sum : sum;
}

bool uses_truth(const RunResult& run) {
  const auto found = run.summary.find("uses_ground_truth");
  return found != run.summary.end() && *found == true;
}

Metric find_metric(const std::string& name) {
  if (cost_target(name)) {
    return {name, name, Unit::whole, false, {fmt::format("/{}", name)}};
  }
  if (name == "detected") {
    throw Error(ErrorKind::usage, fmt::format("unknown metric '{}'", name),
                "it is called flag_accuracy now");
  }
  const auto found = std::ranges::find(metrics_known(), name, &Metric::name);
  if (found == metrics_known().end()) {
    throw Error(ErrorKind::usage, fmt::format("unknown metric '{}'", name),
                suggestion(name, table_metrics()));
  }
  return *found;
}

std::string one_line(std::string_view label) {
  std::string text(label);
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return text;
}

std::string cell_text(const Cell& cell, const Column& column) {
  std::string text = cell.runs == 0 ? "-" : value_text(cell.mean, column.form);
  if (column.kind == ColumnKind::difference && cell.runs > 0 && cell.mean >= 0.0) {
    text = "+" + text;
  }
  if (cell.runs > 1) {
    text += " ± " + value_text(cell.deviation, column.form);
  }
  std::vector<std::string> lacking;
  if (cell.runs > 0 && cell.runs < cell.finished) {
    lacking.push_back(fmt::format("{}/{}", cell.runs, cell.finished));
  }
  if (cell.finished < cell.asked) {
    lacking.push_back(fmt::format("{} of {} done", cell.finished, cell.asked));
  }
  return lacking.empty() ? text : fmt::format("{} ({})", text, join(lacking, ", "));
}

Table make_table(const std::vector<RunResult>& results, const std::vector<Metric>& metrics,
                 const TableOptions& options) {
  LabelOrder rows;
  LabelOrder columns;
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (const RunResult& run : results) {
    const std::size_t row = rows.add(run.row);
    places.emplace_back(columns.add(run.column), row);
  }
  const std::size_t height = rows.all().size();
  const std::size_t width = columns.all().size();
  std::vector<RunsOfCell> groups(width * height);
  for (std::size_t i = 0; i < results.size(); ++i) {
    groups[places[i].first * height + places[i].second].push_back(&results[i]);
  }

  Table table{options.rows_title, {}, {}};
  for (const std::string& row : rows.all()) {
    table.rows.push_back(shown_row(row, results));
  }
  for (const Metric& metric : metrics) {
    for (std::size_t c = 0; c < width; ++c) {
      const std::string& label = columns.all()[c];
      Column column{.label = label,
                    .title = column_title(label, metric, width == 1, metrics.size() == 1),
                    .metric = metric,
                    .form = {},
                    .cells = {}};
      for (std::size_t r = 0; r < height; ++r) {
        column.cells.push_back(make_cell(metric, groups[c * height + r]));
      }
      column.form = form_of(metric.unit, column.cells);
      if (!options.by_cell) {
        mark_best(column);
      }
      table.columns.push_back(std::move(column));
      if (std::ranges::count(options.paper_metrics, metric.name) > 0) {
        add_published(std::span(groups).subspan(c * height, height), table);
      }
    }
  }
  return table;
}

std::vector<RunResult> one_column(const std::vector<RunResult>& results) {
  LabelOrder rows;
  std::vector<std::pair<std::size_t, RunResult>> lines;
  std::unordered_set<std::string> known;
  for (const RunResult& run : results) {
    RunResult line = run;
    line.row = run.column.empty() ? run.row : fmt::format("{}, {}", run.row, run.column);
    line.column = "";
    if (!run.summary.is_null() || !run.published.empty()) {
      known.insert(line.row);
    }
    lines.emplace_back(rows.add(run.row), std::move(line));
  }
  std::ranges::stable_sort(lines, {}, &std::pair<std::size_t, RunResult>::first);
  std::vector<RunResult> kept;
  for (auto& [row, line] : lines) {
    if (known.contains(line.row)) {
      kept.push_back(std::move(line));
    }
  }
  return kept;
}

}  // namespace tables

const std::vector<std::string>& table_metrics() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    std::ranges::transform(tables::metrics_known(), std::back_inserter(all), &tables::Metric::name);
    return all;
  }();
  return names;
}

const std::vector<std::string>& table_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    for (const tables::Metric& metric : tables::metrics_known()) {
      all.insert(all.end(), metric.keys.begin(), metric.keys.end());
    }
    return all;
  }();
  return keys;
}

std::optional<double> cost_target(const std::string& metric) {
  constexpr std::string_view kPrefix = "cost@";
  if (!metric.starts_with(kPrefix)) {
    return std::nullopt;
  }
  double percent = 0.0;
  const char* end = metric.data() + metric.size();
  const auto [rest, error] = std::from_chars(metric.data() + kPrefix.size(), end, percent);
  if (error != std::errc() || rest != end || !(percent >= 0.0 && percent <= 100.0)) {
    throw Error(
        ErrorKind::usage,
        fmt::format("metric '{}': expected an accuracy in percent, such as cost@80", metric));
  }
  return percent / 100.0;
}

}  // namespace winnow
