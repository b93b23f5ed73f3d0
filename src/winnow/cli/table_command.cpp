// `winnow table`.
#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/report/table.h"
#include "winnow/run/runner.h"
#include "winnow/sweep/collect_results.h"
#include "winnow/sweep/paper.h"
#include "winnow/sweep/results.h"
#include "winnow/sweep/sweep_index.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

// What the command was asked for.
struct TableFlags {
  std::vector<std::string> directories;
  std::string metrics = "best,last,participations,bytes,seconds";
  std::string format = "text";
  std::string results;
  bool json = false;
  bool paper = false;
  bool by_cell = false;
};

constexpr const char* kRunsFormat = "runs";

void add_missing(const std::vector<std::string>& more, std::vector<std::string>& metrics) {
  for (const std::string& metric : more) {
    if (std::ranges::count(metrics, metric) == 0) {
      metrics.push_back(metric);
    }
  }
}

// The metrics of the published figures that the sweeps carry.
std::vector<std::string> metrics_of_papers(const std::vector<std::string>& directories) {
  std::vector<std::string> metrics;
  for (const std::string& directory : directories) {
    if (is_sweep(directory)) {
      add_missing(read_sweep_index(directory).paper_metrics, metrics);
    }
  }
  return metrics;
}

// The finished runs of sweeps, for a results file.
std::string runs_text(const std::vector<std::string>& directories) {
  std::vector<std::string> costs;
  std::ranges::copy_if(metrics_of_papers(directories), std::back_inserter(costs),
                       [](const std::string& metric) { return cost_target(metric).has_value(); });
  std::vector<ResultLine> lines;
  for (const std::string& directory : directories) {
    if (!is_sweep(directory)) {
      throw Error(ErrorKind::usage,
                  fmt::format("--format {}: {} is not a sweep", kRunsFormat, directory),
                  "give folders made by 'winnow sweep'");
    }
    for (const RunPlace& run : read_sweep_index(directory).runs) {
      Json summary = read_summary(run.directory);
      if (!summary.is_null()) {
        add_from_history(run.directory, costs, summary);
        lines.push_back({run.row, run.column, run.seed, run.cell, std::move(summary)});
      }
    }
  }
  return write_results(lines, costs);
}

// With --paper the metrics of the published figures become columns, asked for or not.
void show_published(const std::vector<std::string>& papers, TableOptions& options) {
  if (papers.empty()) {
    throw Error(ErrorKind::usage, "--paper: none of these sweeps has published figures",
                "add a [paper] table to the sweep file and run the sweep command again");
  }
  options.paper_metrics = papers;
  std::vector<std::string> metrics = papers;
  if (!options.by_cell) {
    add_missing(options.metrics, metrics);
  }
  options.metrics = std::move(metrics);
}

void print_table(const TableFlags& flags, const Program& program) {
  if (flags.format == kRunsFormat) {
    fmt::print("{}", runs_text(flags.directories));
    return;
  }
  TableOptions options;
  for (const std::string& metric : split(flags.metrics, ',')) {
    options.metrics.emplace_back(trim(metric));
  }
  options.format = flags.json ? "json" : flags.format;
  options.colour = use_colour();
  options.by_cell = flags.by_cell;
  if (!flags.results.empty()) {
    if (flags.directories.size() != 1) {
      throw Error(ErrorKind::usage, "--results: expected one sweep file",
                  "winnow table FILE.toml --results FILE.csv");
    }
    const Sweep sweep = load_sweep(flags.directories.front(), {}, program.registry);
    if (flags.paper) {
      show_published(
          sweep.paper.is_null() ? std::vector<std::string>() : paper_metrics(sweep.paper), options);
    }
    fmt::print("{}", render_table(join_results(sweep, read_results(flags.results)), options));
    return;
  }
  if (flags.paper) {
    show_published(metrics_of_papers(flags.directories), options);
  }
  fmt::print(
      "{}",
      render_table(collect_results(flags.directories, options.metrics, program.registry), options));
}

}  // namespace

void add_table_command(CLI::App& app, Program& program) {
  auto flags = std::make_shared<TableFlags>();
  CLI::App* command = app.add_subcommand("table", "compare runs and sweeps in one table");
  command->add_option("DIR", flags->directories, "run or sweep directories")->required();
  command
      ->add_option(
          "-m,--metric", flags->metrics,
          "one or more of " + join(table_metrics(), ", ") +
              ", separated by commas; cost@80: participations until 80 % accuracy was reached")
      ->type_name("NAMES")
      ->capture_default_str();
  command
      ->add_option("-f,--format", flags->format,
                   "text, markdown, csv, latex or json; runs: a results file with a line for each "
                   "finished run")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "the same as --format json");
  command->add_flag(
      "--paper", flags->paper,
      "also show the published figures in the sweep file and how far ours are from them");
  command->add_flag("--by-cell", flags->by_cell,
                    "print a line for each row and column; with --paper, only the paper's metrics");
  command
      ->add_option(
          "--results", flags->results,
          "read the results from this file (made with --format runs); DIR is then the sweep "
          "file")
      ->type_name("FILE");
  command->footer("Example:  winnow table runs/quickstart --metric best,last --format markdown");
  command->callback([flags, &program] { print_table(*flags, program); });
}

}  // namespace winnow
