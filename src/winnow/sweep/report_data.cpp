#include "winnow/sweep/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <system_error>

#include "winnow/base/build_info.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/sha256.h"
#include "winnow/experiment/toml.h"
#include "winnow/run/format.h"
#include "winnow/run/run_directory.h"
#include "winnow/run/runner.h"
#include "winnow/stats/mixture.h"
#include "winnow/sweep/arena_results.h"
#include "winnow/sweep/report_checks.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

const Registry& winnow_registry() {
  static const Registry made = builtin_registry();
  return made;
}

// Size and time of everything a report reads of a run.
std::string stamp_of(const fs::path& directory) {
  constexpr std::array kFiles{kExperimentFile, kEventsFile,    kSummaryFile,
                              kFindingsFile,   kPartitionFile, kMembersFile};
  std::string stamp = is_running(directory) ? "running\n" : "";
  for (const char* name : kFiles) {
    std::error_code missing;
    const fs::path path = directory / name;
    const std::uintmax_t size = fs::file_size(path, missing);
    if (!missing) {
      const auto time = fs::last_write_time(path, missing).time_since_epoch().count();
      stamp += fmt::format("{} {} {}\n", name, size, time);
    }
  }
  return stamp;
}

// findings.json and partition.json
constexpr std::uintmax_t kLargestPart = std::uintmax_t{256} << 20;

std::string text_or_nothing(const fs::path& path) {
  return fs::exists(path) ? read_file(path, kLargestPart) : std::string();
}

Json parse_object(
    const std::string& text, const fs::path& path,
    const char* hint = "delete it; 'winnow resume' writes it anew unless the run is finished") {
  Json json = parse_json(text, path.string(), ErrorKind::run, hint);
  if (!json.is_object()) {
    throw Error(ErrorKind::run, fmt::format("{} is damaged: it is no object", path.string()), hint);
  }
  return json;
}

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json history_json(const History& history) {
  Json json{{"round", Json::array()},          {"accuracy", Json::array()},
            {"participations", Json::array()}, {"bytes", Json::array()},
            {"seconds", Json::array()},        {"loss", Json::array()},
            {"train_loss", Json::array()},     {"label_precision", Json::array()},
            {"label_recall", Json::array()}};
  bool chosen = false;
  bool trained = false;
  for (const RoundRecord& record : history) {
    json["round"].push_back(record.round);
    json["accuracy"].push_back(or_null(record.accuracy));
    json["participations"].push_back(record.traffic.participations);
    json["bytes"].push_back(record.traffic.bytes_up + record.traffic.bytes_down);
    json["seconds"].push_back(std::round(record.seconds * 1000.0) / 1000.0);
    json["loss"].push_back(or_null(record.loss));
    json["train_loss"].push_back(or_null(record.train_loss));
    json["label_precision"].push_back(or_null(record.label_precision));
    json["label_recall"].push_back(or_null(record.label_recall));
    chosen = chosen || record.label_precision || record.label_recall;
    trained = trained || record.train_loss;
  }
  if (!trained) {
    json.erase("train_loss");  // logs of older versions have none
  }
  if (!chosen) {
    json.erase("label_precision");
    json.erase("label_recall");
  }
  return json;
}

// What the log has of a run beside its first event.
void read_log(const fs::path& directory, Json& run) {
  History history;
  NormCollector norms;
  Json labels = Json::array();
  read_events(directory, [&](const Json& event) {
    const Json& kind = event.at("event");
    if (kind != "round" && kind != "labels") {
      return;
    }
    try {
      if (kind == "round") {
        history.push_back(RoundRecord::from_json(event));
        norms.add(event);
      } else {
        check_labels(event);
        labels.push_back(event);
        labels.back().erase("event");
      }
    } catch (const Error& error) {
      throw Error(ErrorKind::run, fmt::format("{} is damaged: {}",
                                              (directory / kEventsFile).string(), error.what()));
    }
  });
  run["history"] = history_json(history);
  if (Json found = norms.result(); !found.is_null()) {
    run["norms"] = std::move(found);
  }
  if (!labels.empty()) {
    run["labels"] = std::move(labels);
  }
}

const char* status_text(const fs::path& directory) {
  switch (run_status(directory)) {
    case RunStatus::missing:
      return "waiting";
    case RunStatus::finished:
      return "finished";
    default:
      return is_running(directory) ? "started" : "stopped";
  }
}

void add_mixture(Json& score) {
  std::vector<double> values;
  for (const auto& [client, value] : score.at("by_client").items()) {
    values.push_back(value.get<double>());
  }
  const Mixture fit = gmm2(values);
  if (fit.iterations > 0) {
    score["mixture"] = {
        {"means", fit.means}, {"variances", fit.variances}, {"weights", fit.weights}};
  }
}

void add_mixtures(Json& findings) {
  if (const auto scores = findings.find("scores"); scores != findings.end()) {
    for (auto& [name, score] : scores->items()) {
      add_mixture(score);
    }
  }
  if (const auto series = findings.find("series"); series != findings.end()) {
    for (auto& [name, times] : series->items()) {
      std::ranges::for_each(times, add_mixture);
    }
  }
}

// Directories made before findings.json was kept have the scores in their summary.
Json read_findings(const fs::path& directory, const Json& summary) {
  const fs::path path = directory / kFindingsFile;
  Json findings;
  if (const std::string text = text_or_nothing(path); !text.empty()) {
    findings = parse_object(text, path);
  } else if (summary.contains("scores")) {
    findings["scores"] = summary.at("scores");
  }
  if (findings.is_null()) {
    return findings;
  }
  try {
    check_findings(findings);
    add_mixtures(findings);
  } catch (const std::exception& error) {  // ours, or that of a value of another type
    throw Error(ErrorKind::run, fmt::format("{} is damaged: {}", path.string(), error.what()));
  }
  return findings;
}

// Null where the run was not served.
Json read_members(const fs::path& directory) {
  constexpr std::uintmax_t kLargest = 64 << 20;
  constexpr const char* kHint = "delete it; 'winnow serve' writes it anew";
  const fs::path path = directory / kMembersFile;
  if (!fs::exists(path)) {
    return nullptr;
  }
  const Json file = parse_object(read_file(path, kLargest), path, kHint);
  try {
    return checked_members(file);
  } catch (const Error& error) {
    throw Error(ErrorKind::run, fmt::format("{} is damaged: {}", path.string(), error.what()),
                kHint);
  }
}

Json read_run(const RunPlace& place) {
  const fs::path& directory = place.directory;
  Json run{{"id", directory.string()},
           {"row", place.row},
           {"column", place.column},
           {"seed", std::to_string(place.seed)},  // the page would round large numbers
           {"status", status_text(directory)}};
  if (run["status"] == "waiting") {
    return run;
  }
  const fs::path experiment = directory / kExperimentFile;
  run["experiment"] = read_toml(experiment);
  // A method may run for more rounds than the experiment names.
  const Json first = first_event(directory);
  run["planned_rounds"] = first.value("rounds", Json());
  run["uses_ground_truth"] = first.value("uses_ground_truth", Json(false)) == true;
  read_log(directory, run);
  Json summary = read_summary(directory);
  if (Json findings = read_findings(directory, summary); !findings.is_null()) {
    run["findings"] = std::move(findings);
  }
  if (Json members = read_members(directory); !members.is_null()) {
    run["members"] = std::move(members);
  }
  if (!summary.is_null()) {
    summary.erase("scores");  // they are among the findings
    run["summary"] = std::move(summary);
  }
  return run;
}

}  // namespace

ReportReader::ReportReader(std::vector<std::string> directories, const Registry& registry)
    : directories_(std::move(directories)), registry_(registry) {}

ReportReader::ReportReader(std::vector<std::string> directories)
    : ReportReader(std::move(directories), winnow_registry()) {}

std::string ReportReader::stamp() const {
  std::string all;
  for (const RunPlace& place : find_runs(directories_, registry_)) {
    all += fmt::format("{}\n{}\n{}\n{}", place.directory.string(), place.row, place.column,
                       stamp_of(place.directory));
  }
  return sha256_hex(all).substr(0, 16);
}

const ReportReader::Known& ReportReader::known(const RunPlace& place) {
  Known& entry = known_[place.directory.string()];
  std::string stamp =
      fmt::format("{}\n{}\n{}\n{}", place.row, place.column, place.seed, stamp_of(place.directory));
  if (entry.run.is_null() || entry.stamp != stamp) {
    // The stamp is taken first: what is written meanwhile shows up the next time.
    entry = {std::move(stamp), read_run(place), text_or_nothing(place.directory / kPartitionFile)};
  }
  return entry;
}

Json ReportReader::read() {
  Json runs = Json::array();
  Json partitions = Json::array();
  std::map<std::string, std::size_t> places;  // of a partition's text in `partitions`
  for (const RunPlace& place : find_runs(directories_, registry_)) {
    const Known& entry = known(place);
    Json run = entry.run;
    if (!entry.partition.empty()) {
      const auto [found, is_new] = places.emplace(entry.partition, partitions.size());
      if (is_new) {
        partitions.push_back(parse_object(entry.partition, place.directory / kPartitionFile));
      }
      run["partition"] = found->second;
    }
    runs.push_back(std::move(run));
  }
  Json report{{"winnow_report", 1},
              {"version", build_info::kVersion},
              {"runs", Json::array()},
              {"partitions", std::move(partitions)}};
  if (directories_.size() == 1) {
    if (const auto rule = arena_rule_of(directories_.front())) {
      report["arena"] = report_arena(runs, *rule, registry_);
    }
  }
  report["runs"] = std::move(runs);
  return report;
}

}  // namespace winnow
