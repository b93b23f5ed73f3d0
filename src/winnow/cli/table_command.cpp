// `winnow table`.
#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/report/table.h"
#include "winnow/run/metrics.h"
#include "winnow/run/runner.h"
#include "winnow/run/sweep.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

// Adds to the summary of a finished run what it took to reach each target.
void add_costs(const fs::path& directory, const std::vector<std::string>& metrics, Json& summary) {
  if (summary.is_null()) {
    return;
  }
  for (const std::string& metric : metrics) {
    if (const auto target = cost_target(metric)) {
      const auto cost = targeted_cost(read_history(directory), *target);
      summary[metric] = cost ? Json(*cost) : Json(nullptr);
    }
  }
}

// The published figures that the sweeps carry; their metric becomes a column of the table.
void read_paper(const std::vector<std::string>& directories, TableOptions& options) {
  for (const std::string& directory : directories) {
    if (is_sweep(directory)) {
      add_paper(directory, options.paper);
    }
  }
  if (options.paper.figures.empty()) {
    throw Error(ErrorKind::usage, "--paper: no sweep given here carries published figures",
                "add a [paper] table to the sweep file and give the sweep command again");
  }
  if (std::ranges::count(options.metrics, options.paper.metric) == 0) {
    options.metrics.insert(options.metrics.begin(), options.paper.metric);
  }
}

std::vector<RunResult> collect(const std::vector<std::string>& directories,
                               const std::vector<std::string>& metrics) {
  std::vector<RunResult> results;
  for (const std::string& name : directories) {
    const fs::path directory = name;
    if (is_sweep(directory)) {
      for (const RunPlace& run : find_runs({name})) {
        Json summary = read_summary(run.directory);
        add_costs(run.directory, metrics, summary);
        results.push_back({run.row, run.column, run.seed, std::move(summary)});
      }
    } else if (Json summary = read_summary(directory); !summary.is_null()) {
      add_costs(directory, metrics, summary);
      const auto method = summary.at("method").get<std::string>();
      const auto column = summary.at("name").get<std::string>();
      const auto seed = summary.at("seed").get<std::uint64_t>();
      results.push_back({method, column, seed, std::move(summary)});
    } else {
      throw Error(ErrorKind::run,
                  fmt::format("{} holds neither a finished run nor a sweep", directory.string()),
                  "a run that was stopped is finished with 'winnow resume'");
    }
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
      read_paper(flags->directories, options);
    }
    const std::vector<RunResult> results = collect(flags->directories, options.metrics);
    fmt::print("{}", render_table(results, options));
  });
}

}  // namespace winnow
