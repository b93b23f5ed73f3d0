#include "winnow/sweep/sweep_index.h"

#include <fmt/format.h>

#include "winnow/base/checked_json.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/run/format.h"
#include "winnow/run/run_directory.h"
#include "winnow/sweep/arena_results.h"
#include "winnow/sweep/paper.h"

namespace winnow {
namespace {

constexpr const char* kIndex = "sweep.json";
constexpr std::int64_t kSweepFormat = 1;
constexpr const char* kIndexHint = "run the sweep command again to write a new one";

void check_arena_part(const Json& part, const std::filesystem::path& path) {
  try {
    read_arena_rule(part);
  } catch (const Error& error) {
    throw Error(ErrorKind::run, fmt::format("{} is damaged: {}", path.string(), error.what()),
                kIndexHint);
  }
}

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
  if (!sweep.arena.is_null()) {
    index["arena"] = sweep.arena;
  }
  write_file_whole(directory / kIndex, index.dump(2) + "\n");
}

bool is_sweep(const std::filesystem::path& directory) {
  return std::filesystem::exists(directory / kIndex);
}

SweepIndex read_sweep_index(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kIndex;
  SweepIndex index;
  try {
    const Json json =
        parse_json(read_file(path, kLargestSmallFile), path.string(), ErrorKind::run, kIndexHint);
    const auto format = CheckedJson(json, path.string()).find("winnow_sweep");
    refuse_newer(path, format ? format->whole(1, CheckedJson::kMost) : kSweepFormat, kSweepFormat);
    index.name = json.value("name", "");
    index.arena = json.value("arena", Json());
    if (!index.arena.is_null()) {
      check_arena_part(index.arena, path);
    }
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
            kIndexHint);
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
                kIndexHint);
  }
  return index;
}

}  // namespace winnow
