#include "winnow/sweep/paper.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

[[noreturn]] void refuse_paper(const std::string& message, const std::string& hint = "") {
  throw Error(ErrorKind::experiment, message, hint);
}

struct CellNames {
  std::set<std::string> rows;
  std::set<std::string> columns;

  bool no_columns() const { return columns == std::set<std::string>{""}; }
};

void check_name(const std::string& key, const char* what, const std::string& name,
                const std::set<std::string>& names) {
  if (!names.contains(name)) {
    refuse_paper(fmt::format("{}: the sweep has no {} '{}'", key, what, name),
                 suggestion(name, std::vector<std::string>(names.begin(), names.end())));
  }
}

void check_figures(const std::string& key, const Json& figures, const CellNames& cells) {
  if (!figures.is_object()) {
    refuse_paper(fmt::format("{}: expected {{ \"row\" = number }}", key));
  }
  for (const auto& [row, of_row] : figures.items()) {
    check_name(key, "row", row, cells.rows);
    const Json by_column = cells.no_columns() ? Json{{"", of_row}} : of_row;
    if (!by_column.is_object()) {
      refuse_paper(fmt::format("{}.\"{}\": expected {{ \"column\" = number }}", key, row));
    }
    for (const auto& [column, figure] : by_column.items()) {
      check_name(key, "column", column, cells.columns);
      if (!figure.is_number()) {
        refuse_paper(
            fmt::format("{}.\"{}\": expected a number, found {}", key, row, figure.dump()));
      }
    }
  }
}

void check_block(const std::string& key, const Json& block, const CellNames& cells) {
  const bool whole = block.is_object() && block.contains("metric") && block["metric"].is_string() &&
                     block.contains("figures");
  if (!whole) {
    refuse_paper(
        fmt::format("{}: expected metric = \"...\" and figures = {{ \"row\" = number }}", key));
  }
  for (const auto& [name, value] : block.items()) {
    if (name == "figures" || name == "deviations") {
      check_figures(fmt::format("{}.{}", key, name), value, cells);
    } else if (name == "source" ? !value.is_string() : name != "metric") {
      refuse_paper(fmt::format("{}: unexpected '{}'", key, name),
                   "allowed are source, metric, figures and deviations");
    }
  }
}

std::optional<double> figure_of(const Json& figures, const std::string& row,
                                const std::string& column) {
  const auto found = figures.find(row);
  if (found == figures.end() || (found->is_object() && !found->contains(column))) {
    return std::nullopt;
  }
  return (found->is_object() ? found->at(column) : *found).get<double>();
}

}  // namespace

Json check_paper(const Json& part, const std::vector<std::pair<std::string, std::string>>& cells) {
  CellNames names;
  for (const auto& [row, column] : cells) {
    names.rows.insert(row);
    names.columns.insert(column);
  }
  Json blocks = part.is_array() ? part : Json::array({part});
  std::set<std::string> metrics;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string key = part.is_array() ? fmt::format("paper.{}", i) : "paper";
    check_block(key, blocks[i], names);
    const auto metric = blocks[i]["metric"].get<std::string>();
    if (!metrics.insert(metric).second) {
      refuse_paper(fmt::format("{}.metric = \"{}\": the metric has a block already", key, metric),
                   "put all its figures into one");
    }
  }
  return blocks;
}

std::vector<std::string> paper_metrics(const Json& blocks) {
  std::vector<std::string> metrics;
  for (const Json& block : blocks) {
    metrics.push_back(block.at("metric").get<std::string>());
  }
  return metrics;
}

PublishedByMetric published_for(const Json& blocks, const std::string& row,
                                const std::string& column) {
  PublishedByMetric published;
  for (const Json& block : blocks) {
    if (const auto value = figure_of(block.at("figures"), row, column)) {
      const Json deviations = block.value("deviations", Json::object());
      published[block.at("metric").get<std::string>()] = {*value,
                                                          figure_of(deviations, row, column)};
    }
  }
  return published;
}

}  // namespace winnow
