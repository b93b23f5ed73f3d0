// `winnow table`.
#include <fmt/format.h>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/text.h"
#include "winnow/cli/command.h"
#include "winnow/cli/console.h"
#include "winnow/report/table.h"
#include "winnow/run/runner.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

void collect_sweep(const fs::path& directory, std::vector<RunResult>& results) {
  const fs::path path = directory / "sweep.json";
  try {
    const Json index = Json::parse(read_file(path));
    for (const Json& run : index.at("runs")) {
      const Json summary = read_summary(directory / run.at("id").get<std::string>());
      results.push_back({run.at("row").get<std::string>(), run.at("column").get<std::string>(),
                         run.at("seed").get<std::uint64_t>(), summary});
    }
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::run, fmt::format("{} is damaged: {}", path.string(), error.what()),
                "give the sweep command again to write it anew");
  }
}

std::vector<RunResult> collect(const std::vector<std::string>& directories) {
  std::vector<RunResult> results;
  for (const std::string& name : directories) {
    const fs::path directory = name;
    if (fs::exists(directory / "sweep.json")) {
      collect_sweep(directory, results);
    } else if (Json summary = read_summary(directory); !summary.is_null()) {
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
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("table", "compare runs and sweeps in one table");
  command->add_option("DIR", flags->directories, "run or sweep directories")->required();
  command
      ->add_option("-m,--metric", flags->metrics,
                   "one or more of " + join(table_metrics(), ", ") + ", with commas")
      ->capture_default_str();
  command->add_option("-f,--format", flags->format, "text, markdown, csv, latex or json")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "the same as --format json");
  command->footer("Example:  winnow table runs/quickstart --metric best,last --format markdown");
  command->callback([flags] {
    TableOptions options;
    for (const std::string& metric : split(flags->metrics, ',')) {
      options.metrics.emplace_back(trim(metric));
    }
    options.format = flags->json ? "json" : flags->format;
    options.colour = use_colour();
    fmt::print("{}", render_table(collect(flags->directories), options));
  });
}

}  // namespace winnow
