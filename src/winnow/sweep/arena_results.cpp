#include "winnow/sweep/arena_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/run/runner.h"
#include "winnow/sweep/collect_results.h"
#include "winnow/sweep/find_runs.h"
#include "winnow/sweep/results.h"
#include "winnow/sweep/sweep_index.h"

namespace winnow {
namespace arenas {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHowTo = "docs/arena.md says how one is made and run";

// As a model is sent by plain training, and how many samples there are.
bool is_usual(const FieldRule& rule) {
  const FieldRule model = field::trained_model();
  return rule.counts == Counts::samples ||
         (rule.name == model.name && rule.type == model.type && rule.tells == model.tells);
}

// "krum (bf16)" and "oracle (uses ground truth)" are rows of krum and oracle.
std::string method_in(const std::string& row) {
  return row.substr(0, row.find(" ("));
}

bool has_method(const Registry& registry, const std::string& name) {
  return std::ranges::count(registry.methods.names(), name) > 0;
}

[[noreturn]] void refuse(const std::string& source) {
  throw Error(ErrorKind::run,
              fmt::format("{} is not an arena: its sweep file has no [arena] table", source),
              kHowTo);
}

Arena of_directory(const std::string& directory, const Registry& registry) {
  const std::optional<ArenaRule> rule = arena_rule_of(directory);
  if (!rule) {
    refuse(directory);
  }
  std::vector<RunResult> results;
  RevealedByRow reveals;
  for (const RunPlace& run : find_runs({directory}, registry)) {
    Json summary = read_summary(run.directory);
    if (!summary.is_null()) {
      add_from_history(run.directory, {rule->metric}, summary);
      if (!reveals.contains(run.row)) {
        const Experiment experiment = read_run_experiment(run.directory, registry);
        reveals[run.row] = revealed_by(experiment.method, experiment.method_params, registry);
      }
    }
    results.push_back({run.row, run.column, run.seed, std::move(summary), {}});
  }
  return make_arena(results, *rule, reveals);
}

Arena of_file(const std::string& file, const std::string& results, const Registry& registry) {
  const Sweep sweep = load_sweep(file, {}, registry);
  if (sweep.arena.is_null()) {
    refuse(file);
  }
  if (results.empty()) {
    const fs::path directory = fs::path("runs") / sweep.name;
    if (!is_sweep(directory)) {
      throw Error(ErrorKind::run, fmt::format("{}: no results in {}", file, directory.string()),
                  fmt::format("run it with 'winnow sweep {}', or give --results FILE", file));
    }
    return of_directory(directory.string(), registry);
  }
  const std::vector<RunResult> joined = join_results(sweep, read_results(results));
  RevealedByRow reveals;
  for (const RunResult& result : joined) {
    if (result.summary.is_null() || reveals.contains(result.row)) {
      continue;
    }
    // Rows of another precision stand for the same runs.
    const auto run = std::ranges::find_if(sweep.runs, [&](const SweepRun& one) {
      return result.row == one.row || result.row.starts_with(one.row + " (");
    });
    reveals[result.row] =
        revealed_by(run->experiment.method, run->experiment.method_params, registry);
  }
  return make_arena(joined, read_arena_rule(sweep.arena), reveals);
}

Arena of_results(const std::string& file, const Registry& registry) {
  std::vector<RunResult> results;
  RevealedByRow reveals;
  for (const ResultLine& line : read_results(file)) {
    results.push_back({line.row, line.column, line.seed, line.summary, {}});
    if (has_method(registry, method_in(line.row)) && !reveals.contains(line.row)) {
      reveals[line.row] = revealed_by(method_in(line.row), Json::object(), registry);
    }
  }
  return make_arena(results, {}, reveals);
}

}  // namespace
}  // namespace arenas

ArenaRule read_arena_rule(const Json& part) {
  if (!part.is_object()) {
    throw Error(ErrorKind::experiment, "arena: expected a table",
                "[arena] takes metric = \"last10\" and reference = \"fedavg\"");
  }
  ArenaRule rule;
  for (const auto& [key, value] : part.items()) {
    if ((key != "metric" && key != "reference") || !value.is_string()) {
      throw Error(ErrorKind::experiment, fmt::format("arena: unexpected '{}'", key),
                  "[arena] takes metric = \"last10\" and reference = \"fedavg\"");
    }
    (key == "metric" ? rule.metric : rule.reference) = value.get<std::string>();
  }
  if (std::ranges::count(arena_metrics(), rule.metric) == 0) {
    throw Error(ErrorKind::experiment,
                fmt::format("arena.metric = \"{}\": expected an accuracy", rule.metric),
                suggestion(rule.metric, arena_metrics()));
  }
  return rule;
}

Json arena_rule_json(const ArenaRule& rule) {
  return {{"metric", rule.metric}, {"reference", rule.reference}};
}

std::vector<Revealed> revealed_by(const std::string& method, const Json& params,
                                  const Registry& registry) {
  const std::unique_ptr<Method> made = registry.make(method);
  Params declared;
  made->declare(declared);
  declared.read(params, "method");
  std::vector<Revealed> revealed;
  for (const Exchange& exchange : made->exchanges({})) {
    for (const FieldRule& rule : exchange.answers) {
      if (!arenas::is_usual(rule) &&
          std::ranges::find(revealed, rule.name, &Revealed::field) == revealed.end()) {
        revealed.push_back({rule.name, rule.tells});
      }
    }
  }
  return revealed;
}

std::optional<ArenaRule> arena_rule_of(const std::filesystem::path& directory) {
  if (!is_sweep(directory)) {
    return std::nullopt;
  }
  const Json part = read_sweep_index(directory).arena;
  return part.is_null() ? std::nullopt : std::optional(read_arena_rule(part));
}

Arena load_arena(const std::string& source, const std::string& results, const Registry& registry) {
  const std::filesystem::path path = source;
  if (!std::filesystem::exists(path)) {
    throw Error(ErrorKind::run, fmt::format("{} does not exist", source),
                "give the directory of a sweep, a sweep file or a results file");
  }
  const bool is_file = !std::filesystem::is_directory(path);
  if (!results.empty() && (!is_file || path.extension() == ".csv")) {
    throw Error(ErrorKind::usage, fmt::format("--results: {} is not a sweep file", source),
                "winnow arena FILE.toml --results FILE.csv");
  }
  if (!is_file) {
    return arenas::of_directory(source, registry);
  }
  return path.extension() == ".csv" ? arenas::of_results(source, registry)
                                    : arenas::of_file(source, results, registry);
}

Json report_arena(const Json& runs, const ArenaRule& rule, const Registry& registry) {
  std::vector<RunResult> results;
  RevealedByRow reveals;
  for (const Json& run : runs) {
    const auto row = run.at("row").get<std::string>();
    results.push_back({row,
                       run.at("column").get<std::string>(),
                       std::stoull(run.at("seed").get<std::string>()),
                       run.value("summary", Json(nullptr)),
                       {}});
    if (!run.contains("experiment") || reveals.contains(row)) {
      continue;
    }
    try {
      const Experiment experiment = parse_experiment(run.at("experiment"), registry);
      reveals[row] = revealed_by(experiment.method, experiment.method_params, registry);
    } catch (const Error&) {
      continue;  // a method or a key that this program does not have
    }
  }
  return arena_json(make_arena(results, rule, reveals));
}

}  // namespace winnow
