#include "winnow/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/report/table_model.h"

namespace winnow {

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
  std::vector<tables::Metric> metrics;
  std::ranges::transform(options.metrics, std::back_inserter(metrics), tables::find_metric);
  if (metrics.empty()) {
    metrics = {tables::find_metric("best"), tables::find_metric("last")};
  }
  const tables::Table table =
      tables::make_table(options.by_cell ? tables::one_column(results) : results, metrics, options);
  if (format == "markdown") {
    return tables::render_markdown(table);
  }
  if (format == "csv") {
    return tables::render_csv(table);
  }
  if (format == "latex") {
    return tables::render_latex(table);
  }
  return format == "json" ? tables::render_json(table) : tables::render_text(table, options.colour);
}

}  // namespace winnow
