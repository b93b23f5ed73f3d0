#include "winnow/sweep/sweep_index.h"

#include <fmt/format.h>

#include "winnow/base/checked_json.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/run/format.h"
#include "winnow/run/run_directory.h"
#include "winnow/sweep/paper.h"

namespace winnow {
namespace {

constexpr const char* kIndex = "sweep.json";
constexpr std::int64_t kSweepFormat = 1;

}  // namespace

RunStatus run_status(const std::filesystem::path& directory) {
  if (!std::filesystem::exists(directory / kExperimentFile)) {
    return RunStatus::missing;
  }
  return std::filesystem::exists(directory / kSummaryFile) ? RunStatus::finished
                                                           : RunStatus::started;
}

void write_sweep_index(const std::filesystem::path& directory, const Sweep& sweep) {
  Json runs = Json::array();
  for (const SweepRun& run : sweep.runs) {
    runs.push_back({{"id", run.id},
                    {"row", run.row},
                    {"column", run.column},
                    {"seed", run.seed},
                    {"cell", run.cell}});
  }
  Json index{{"winnow_sweep", kSweepFormat}, {"name", sweep.name}, {"runs", runs}};
  if (!sweep.paper.is_null()) {
    index["paper"] = sweep.paper;
  }
  write_file_whole(directory / kIndex, index.dump(2) + "\n");
}

bool is_sweep(const std::filesystem::path& directory) {
  return std::filesystem::exists(directory / kIndex);
}

SweepIndex read_sweep_index(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kIndex;
  constexpr const char* kHint = "give the sweep command again to write it anew";
  SweepIndex index;
  try {
    const Json json = parse_json(read_file(path), path.string(), ErrorKind::run, kHint);
    const auto format = CheckedJson(json, path.string()).find("winnow_sweep");
    refuse_newer(path, format ? format->whole(1, CheckedJson::kMost) : kSweepFormat, kSweepFormat);
    index.name = json.value("name", "");
    const Json part = json.value("paper", Json::array());
    // Earlier versions wrote a single block.
    const Json paper = part.is_object() && !part.empty() ? Json::array({part}) : part;
    index.paper_metrics = paper_metrics(paper);
    for (const Json& run : json.at("runs")) {
      const auto id = run.at("id").get<std::string>();
      if (!is_plain_name(id)) {
        throw Error(
            ErrorKind::run,
            fmt::format("{} is damaged: a run is called {}", path.string(), run.at("id").dump()),
            kHint);
      }
      RunPlace place{.row = run.at("row").get<std::string>(),
                     .column = run.at("column").get<std::string>(),
                     .seed = CheckedJson(run, path.string()).at("seed").seed(),
                     .directory = directory / id,
                     .cell = run.value("cell", "")};
      place.published = published_for(paper, place.row, place.column);
      index.runs.push_back(std::move(place));
    }
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::run, fmt::format("{} is damaged: {}", path.string(), error.what()),
                kHint);
  }
  return index;
}

}  // namespace winnow
