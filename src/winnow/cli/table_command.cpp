// `winnow table`.
#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/report/table.h"
#include "winnow/run/find_runs.h"
#include "winnow/run/metrics.h"
#include "winnow/run/runner.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

// Adds to the summary of a finished run what follows from its rounds: what it took to reach each
// target, and last10, which older versions took over evaluations instead of rounds.
void add_from_history(const fs::path& directory, const std::vector<std::string>& metrics,
                      Json& summary) {
  for (const std::string& metric : metrics) {
    const auto target = cost_target(metric);
    if (!target && metric != "last10") {
      continue;
    }
    const History history = read_history(directory);
    const std::optional<double> value = target
                                            ? std::optional<double>(targeted_cost(history, *target))
                                            : accuracies(history).last10;
    summary[metric] = value ? Json(*value) : Json(nullptr);
  }
}

// The metric of the published figures that the sweeps carry.
std::string paper_metric(const std::vector<std::string>& directories) {
  std::string metric;
  for (const std::string& directory : directories) {
    const std::string other = is_sweep(directory) ? read_sweep_index(directory).paper_metric : "";
    if (!metric.empty() && !other.empty() && other != metric) {
      throw Error(ErrorKind::usage,
                  fmt::format("--paper: these sweeps carry figures of different metrics, {} and {}",
                              metric, other),
                  "make a table of each");
    }
    metric = other.empty() ? metric : other;
  }
  if (metric.empty()) {
    throw Error(ErrorKind::usage, "--paper: no sweep given here carries published figures",
                "add a [paper] table to the sweep file and give the sweep command again");
  }
  return metric;
}

std::vector<RunResult> collect(const std::vector<std::string>& directories,
                               const std::vector<std::string>& metrics) {
  std::vector<RunResult> results;
  for (const RunPlace& run : find_runs(directories)) {
    Json summary = read_summary(run.directory);
    if (!summary.is_null()) {
      add_from_history(run.directory, metrics, summary);
    }
    results.push_back({run.row, run.column, run.seed, std::move(summary), run.published});
  }
  return results;
}

}  // namespace

void add_table_command(CLI::App& app, Program& /*program*/) {
  struct Flags {
    std::vector<std::string> directories;
    std::string metrics = "best,last,participations,bytes,seconds";
    std::string format = "text";
    bool json = false;
    bool paper = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("table", "compare runs and sweeps in one table");
  command->add_option("DIR", flags->directories, "run or sweep directories")->required();
  command
      ->add_option("-m,--metric", flags->metrics,
                   "one or more of " + join(table_metrics(), ", ") +
                       ", with commas; cost@80: participations until 80 % was reached")
      ->capture_default_str();
  command->add_option("-f,--format", flags->format, "text, markdown, csv, latex or json")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "the same as --format json");
  command->add_flag("--paper", flags->paper,
                    "put the published figures of the sweep file and the difference beside ours");
  command->footer("Example:  winnow table runs/quickstart --metric best,last --format markdown");
  command->callback([flags] {
    TableOptions options;
    for (const std::string& metric : split(flags->metrics, ',')) {
      options.metrics.emplace_back(trim(metric));
    }
    options.format = flags->json ? "json" : flags->format;
    options.colour = use_colour();
    if (flags->paper) {
      options.paper_metric = paper_metric(flags->directories);
      if (std::ranges::count(options.metrics, options.paper_metric) == 0) {
        // The figures' metric becomes a column, asked for or not.
        options.metrics.insert(options.metrics.begin(), options.paper_metric);
      }
    }
    const std::vector<RunResult> results = collect(flags->directories, options.metrics);
    fmt::print("{}", render_table(results, options));
  });
}

}  // namespace winnow
