// `winnow table`.
#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/report/table.h"
#include "winnow/run/metrics.h"
#include "winnow/run/runner.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void damaged(const fs::path& path, const Json::exception& error) {
  throw Error(ErrorKind::run, fmt::format("{} is damaged: {}", path.string(), error.what()),
              "give the sweep command again to write it anew");
}

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

Json read_sweep_index(const fs::path& directory) {
  const fs::path path = directory / "sweep.json";
  try {
    return Json::parse(read_file(path));
  } catch (const Json::exception& error) {
    damaged(path, error);
  }
}

void add_figures(const Json& paper, Paper& figures) {
  const auto metric = paper.at("metric").get<std::string>();
  if (!figures.metric.empty() && figures.metric != metric) {
    throw Error(ErrorKind::usage,
                fmt::format("--paper: these sweeps carry figures of different metrics, {} and {}",
                            figures.metric, metric),
                "make a table of each");
  }
  figures.metric = metric;
  for (const auto& [row, by_column] : paper.at("figures").items()) {
    if (by_column.is_number()) {
      figures.figures.push_back({row, "", by_column.get<double>()});
      continue;
    }
    for (const auto& [column, figure] : by_column.items()) {
      figures.figures.push_back({row, column, figure.get<double>()});
    }
  }
}

// The published figures that the sweeps carry; their metric becomes a column of the table.
void read_paper(const std::vector<std::string>& directories, TableOptions& options) {
  for (const fs::path directory : directories) {
    if (!fs::exists(directory / "sweep.json")) {
      continue;
    }
    const Json index = read_sweep_index(directory);
    try {
      if (index.contains("paper")) {
        add_figures(index["paper"], options.paper);
      }
    } catch (const Json::exception& error) {
      damaged(directory / "sweep.json", error);
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

void collect_sweep(const fs::path& directory, const std::vector<std::string>& metrics,
                   std::vector<RunResult>& results) {
  try {
    const Json index = read_sweep_index(directory);
    for (const Json& run : index.at("runs")) {
      const fs::path place = directory / run.at("id").get<std::string>();
      Json summary = read_summary(place);
      add_costs(place, metrics, summary);
      results.push_back({run.at("row").get<std::string>(), run.at("column").get<std::string>(),
                         run.at("seed").get<std::uint64_t>(), summary});
    }
  } catch (const Json::exception& error) {
    damaged(directory / "sweep.json", error);
  }
}

std::vector<RunResult> collect(const std::vector<std::string>& directories,
                               const std::vector<std::string>& metrics) {
  std::vector<RunResult> results;
  for (const std::string& name : directories) {
    const fs::path directory = name;
    if (fs::exists(directory / "sweep.json")) {
      collect_sweep(directory, metrics, results);
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
