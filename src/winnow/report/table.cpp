#include "winnow/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "winnow/base/csv.h"
#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

enum class Unit { percent, whole, bytes, seconds, ratio };

struct Metric {
  std::string name;
  Unit unit = Unit::whole;
  bool larger_is_better = false;
  std::vector<std::string> keys;  // where its addends lie in a summary
};

const std::vector<Metric>& metrics_known() {
  static const std::vector<Metric> known{
      {"best", Unit::percent, true, {"/best"}},
      {"last", Unit::percent, true, {"/last"}},
      {"last10", Unit::percent, true, {"/last10"}},
      {"top5", Unit::percent, true, {"/top5"}},
      {"participations", Unit::whole, false, {"/participations"}},
      {"bytes", Unit::bytes, false, {"/bytes_up", "/bytes_down"}},
      {"seconds", Unit::seconds, false, {"/wall_seconds"}},
      {"precision", Unit::ratio, true, {"/detection/precision"}},
      {"recall", Unit::ratio, true, {"/detection/recall"}},
      {"detected", Unit::ratio, true, {"/detection/accuracy"}},
  };
  return known;
}

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

struct Column {
  std::string label;
  std::string title;
  Metric metric;
  bool difference = false;  // shown with its sign
  std::vector<Cell> cells;  // one per row
};

struct Table {
  std::string rows_title;
  std::vector<std::string> rows;
  std::vector<Column> columns;
};

Metric find_metric(const std::string& name) {
  if (cost_target(name)) {
    return {name, Unit::whole, false, {fmt::format("/{}", name)}};
  }
  const auto found = std::ranges::find(metrics_known(), name, &Metric::name);
  if (found == metrics_known().end()) {
    throw Error(ErrorKind::usage, fmt::format("unknown metric '{}'", name),
                suggestion(name, table_metrics()));
  }
  return *found;
}

// Labels come from files: a control character in one must not break a line or reach a terminal.
std::string one_line(std::string_view label) {
  std::string text(label);
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return text;
}

// Nothing when the run does not have the metric: its summary lacks a key, or holds null for it.
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

// The label of a row as a table shows it: one whose runs all use ground truth says so (spec:
// baselines 27).
std::string shown_row(const std::string& row, const std::vector<RunResult>& results) {
  constexpr std::string_view kMark = "uses ground truth";
  bool oracle = false;
  for (const RunResult& run : results) {
    if (run.row == row && !run.summary.is_null()) {
      if (!uses_truth(run)) {
        return row;
      }
      oracle = true;
    }
  }
  return oracle && row.find(kMark) == std::string::npos ? fmt::format("{} ({})", row, kMark) : row;
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

std::string value_text(double value, Unit unit) {
  switch (unit) {
    case Unit::percent:
      return fmt::format("{:.2f}", value);
    case Unit::whole:
      return fmt::format("{:.0f}", value);
    case Unit::bytes:
      return human_bytes(value);
    case Unit::seconds:
      return fmt::format("{:.1f}", value);
    case Unit::ratio:
      break;
  }
  return fmt::format("{:.3f}", value);
}

std::string cell_text(const Cell& cell, const Column& column) {
  const Unit unit = column.metric.unit;
  std::string text = cell.runs == 0 ? "-" : value_text(cell.mean, unit);
  if (column.difference && cell.runs > 0 && cell.mean >= 0.0) {
    text = "+" + text;
  }
  if (cell.runs > 1) {
    text += " ± " + value_text(cell.deviation, unit);
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
  const std::string printed = value_text(best->mean, column.metric.unit);
  for (Cell& cell : column.cells) {
    cell.best = cell.can_be_best() && value_text(cell.mean, column.metric.unit) == printed;
  }
}

// Labels in first-seen order, each with its place.
class Labels {
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
    return metric.name;
  }
  return only_metric ? label : fmt::format("{} {}", label, metric.name);
}

using RunsOfCell = std::vector<const RunResult*>;

// The published figures of the column just made, and ours minus them. `cells` has the runs of each
// of its rows.
void add_published(std::span<const RunsOfCell> cells, Table& table) {
  const Column ours = table.columns.back();
  Column theirs{ours.label, fmt::format("{} paper", ours.title), ours.metric, false, {}};
  Column difference{ours.label, "difference", ours.metric, true, {}};
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

Table make_table(const std::vector<RunResult>& results, const std::vector<Metric>& metrics,
                 const TableOptions& options) {
  Labels rows;
  Labels columns;
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
      Column column{
          label, column_title(label, metric, width == 1, metrics.size() == 1), metric, false, {}};
      for (std::size_t r = 0; r < height; ++r) {
        column.cells.push_back(make_cell(metric, groups[c * height + r]));
      }
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

// A line for each row and column, in the order of rows, without those that nothing is known of.
std::vector<RunResult> one_column(const std::vector<RunResult>& results) {
  Labels rows;
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

// Columns on a screen: UTF-8 continuation bytes take none.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::size_t widest(const std::vector<std::string>& lines) {
  std::size_t width = 0;
  for (const std::string& line : lines) {
    width = std::max(width, width_of(line));
  }
  return width;
}

// The lines of one column of a text table, header first, all of one width.
std::vector<std::string> text_column(const Column& column, bool colour) {
  const bool marked = !colour && std::ranges::any_of(column.cells, &Cell::best);
  const std::string unmarked = marked ? " " : "";
  std::vector<std::string> lines{one_line(column.title) + unmarked};
  for (const Cell& cell : column.cells) {
    lines.push_back(cell_text(cell, column) + (marked && cell.best ? "*" : unmarked));
  }
  const std::size_t width = widest(lines);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string padding(width - width_of(lines[i]), ' ');
    const bool bold = colour && i > 0 && column.cells[i - 1].best;
    lines[i] = padding + (bold ? "\x1b[1m" + lines[i] + "\x1b[0m" : lines[i]);
  }
  lines.insert(lines.begin() + 1, std::string(width, '-'));
  return lines;
}

std::string render_text(const Table& table, bool colour) {
  std::vector<std::string> lines{one_line(table.rows_title)};
  std::ranges::transform(table.rows, std::back_inserter(lines), one_line);
  const std::size_t width = widest(lines);
  for (std::string& line : lines) {
    line.append(width - width_of(line), ' ');
  }
  lines.insert(lines.begin() + 1, std::string(width, '-'));
  for (const Column& column : table.columns) {
    const std::vector<std::string> parts = text_column(column, colour);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      lines[i] += "  " + parts[i];
    }
  }
  std::string text;
  for (const std::string& line : lines) {
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

std::string markdown_escaped(std::string_view label) {
  constexpr std::string_view kSpecial = "\\|*`<";
  std::string text;
  for (const char c : one_line(label)) {
    if (kSpecial.find(c) != std::string_view::npos) {
      text += '\\';
    }
    text += c;
  }
  return text;
}

std::string render_markdown(const Table& table) {
  std::string text = fmt::format("| {} |", markdown_escaped(table.rows_title));
  std::string rule = "| --- |";
  for (const Column& column : table.columns) {
    text += fmt::format(" {} |", markdown_escaped(column.title));
    rule += " ---: |";
  }
  text += '\n' + rule + '\n';
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    text += fmt::format("| {} |", markdown_escaped(table.rows[r]));
    for (const Column& column : table.columns) {
      const std::string value = cell_text(column.cells[r], column);
      text += column.cells[r].best ? fmt::format(" **{}** |", value) : fmt::format(" {} |", value);
    }
    text += '\n';
  }
  return text;
}

// How LaTeX spells a character. A row that starts with [ or * would be taken for an argument of the
// line end before it.
std::string latex_spelling(char c) {
  constexpr std::string_view kBackslashed = "&%$#_{}";
  constexpr std::string_view kBraced = "[*";
  constexpr std::array<std::pair<char, const char*>, 6> kNamed{{{'\\', "backslash"},
                                                                {'~', "asciitilde"},
                                                                {'^', "asciicircum"},
                                                                {'<', "less"},
                                                                {'>', "greater"},
                                                                {'|', "bar"}}};
  if (kBackslashed.find(c) != std::string_view::npos) {
    return {'\\', c};
  }
  if (kBraced.find(c) != std::string_view::npos) {
    return {'{', c, '}'};
  }
  for (const auto& [character, name] : kNamed) {
    if (c == character) {
      return fmt::format("\\text{}{{}}", name);
    }
  }
  return {c};
}

std::string latex_escaped(std::string_view label) {
  constexpr std::string_view kPlusMinus = "±";
  const std::string line = one_line(label);
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line.compare(i, kPlusMinus.size(), kPlusMinus) == 0) {
      text += "$\\pm$";
      i += kPlusMinus.size() - 1;
    } else {
      text += latex_spelling(line[i]);
    }
  }
  return text;
}

std::string render_latex(const Table& table) {
  std::string text =
      fmt::format("\\begin{{tabular}}{{l{}}}\n\\toprule\n{}",
                  std::string(table.columns.size(), 'r'), latex_escaped(table.rows_title));
  for (const Column& column : table.columns) {
    text += " & " + latex_escaped(column.title);
  }
  text += " \\\\\n\\midrule\n";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    text += latex_escaped(table.rows[r]);
    for (const Column& column : table.columns) {
      const std::string value = latex_escaped(cell_text(column.cells[r], column));
      text += column.cells[r].best ? fmt::format(" & \\textbf{{{}}}", value) : " & " + value;
    }
    text += " \\\\\n";
  }
  return text + "\\bottomrule\n\\end{tabular}\n";
}

// Up to six decimals, so that the rounding noise of a mean does not show; "" for no number.
std::string plain_number(bool present, double value) {
  if (!present || !std::isfinite(value)) {
    return "";
  }
  std::string text = fmt::format("{:.6f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') {
    text.pop_back();
  }
  return text;
}

// What a column is called in the long forms, where every line stands for itself.
std::string long_name(const Column& column) {
  if (column.difference) {
    return fmt::format("{} difference", column.metric.name);
  }
  return column.title.ends_with(" paper") ? fmt::format("{} paper", column.metric.name)
                                          : column.metric.name;
}

std::string render_csv(const Table& table) {
  std::string text = "row,column,metric,mean,std,runs,unfinished\n";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    for (const Column& column : table.columns) {
      const Cell& cell = column.cells[r];
      text += fmt::format(
          "{},{},{},{},{},{},{}\n", csv_field(table.rows[r]), csv_field(column.label),
          long_name(column), plain_number(cell.runs > 0, cell.mean),
          plain_number(cell.runs > 1, cell.deviation), cell.runs, cell.asked - cell.finished);
    }
  }
  return text;
}

std::string render_json(const Table& table) {
  const auto number = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json::parse(text);
  };
  Json lines = Json::array();
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    for (const Column& column : table.columns) {
      const Cell& cell = column.cells[r];
      lines.push_back({{"row", table.rows[r]},
                       {"column", column.label},
                       {"metric", long_name(column)},
                       {"mean", number(plain_number(cell.runs > 0, cell.mean))},
                       {"std", number(plain_number(cell.runs > 1, cell.deviation))},
                       {"runs", cell.runs},
                       {"unfinished", cell.asked - cell.finished}});
    }
  }
  return lines.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

const std::vector<std::string>& table_metrics() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    std::ranges::transform(metrics_known(), std::back_inserter(all), &Metric::name);
    return all;
  }();
  return names;
}

const std::vector<std::string>& table_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    for (const Metric& metric : metrics_known()) {
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

const std::vector<std::string>& table_formats() {
  static const std::vector<std::string> names{"text", "markdown", "csv", "latex", "json"};
  return names;
}

std::string render_table(const std::vector<RunResult>& results, const TableOptions& options) {
  const std::string& format = options.format;
  if (std::ranges::find(table_formats(), format) == table_formats().end()) {
    throw Error(ErrorKind::usage, fmt::format("unknown table format '{}'", format),
                suggestion(format, table_formats()));
  }
  std::vector<Metric> metrics;
  std::ranges::transform(options.metrics, std::back_inserter(metrics), find_metric);
  if (metrics.empty()) {
    metrics = {find_metric("best"), find_metric("last")};
  }
  const Table table = make_table(options.by_cell ? one_column(results) : results, metrics, options);
  if (format == "markdown") {
    return render_markdown(table);
  }
  if (format == "csv") {
    return render_csv(table);
  }
  if (format == "latex") {
    return render_latex(table);
  }
  return format == "json" ? render_json(table) : render_text(table, options.colour);
}

}  // namespace winnow
