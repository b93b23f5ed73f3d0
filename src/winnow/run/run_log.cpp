// What a run directory says of itself: its log, its summary, its experiment.
#include "winnow/run/run_log.h"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "winnow/base/arithmetic.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/judge/quality.h"
#include "winnow/run/format.h"
#include "winnow/run/run_directory.h"
#include "winnow/run/runner.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

}  // namespace

RoundRecord round_of(const Json& event) {
  try {
    return RoundRecord::from_json(event);
  } catch (const Error&) {
    throw NoRound();
  }
}

void for_each_event(const fs::path& path, std::uintmax_t size,
                    const std::function<void(const Json&)>& take) {
  std::size_t number = 0;
  const auto take_line = [&](std::string_view line) {
    ++number;
    try {
      Json event = parse_json_or_null(line);
      if (number == 1) {
        check_format(event, path);
      }
      rename_flag_quality(event);
      take(event);
    } catch (const Json::exception&) {
      throw Error(ErrorKind::run, fmt::format("{}:{}: not an event", path.string(), number));
    } catch (const NoRound&) {
      throw Error(ErrorKind::run, fmt::format("{}:{}: not an event", path.string(), number));
    }
  };
  read_lines(path, take_line, size);
}

Json read_summary(const fs::path& directory) {
  const fs::path path = directory / kSummaryFile;
  if (!fs::exists(path)) {
    return nullptr;
  }
  constexpr const char* kHint = "delete it and resume the run";
  Json summary =
      parse_json(read_file(path, kLargestSmallFile), path.string(), ErrorKind::run, kHint);
  check_format(summary, path);
  const auto require = [&](const char* key, const char* expected, auto fits) {
    const auto found = summary.find(key);
    if (found == summary.end() || !fits(*found)) {
      throw Error(ErrorKind::run,
                  fmt::format("{} is damaged: {} is not {}", path.string(), key, expected), kHint);
    }
  };
  for (const char* key : {"name", "method", "model_hash"}) {
    require(key, "a text", [](const Json& value) { return value.is_string(); });
  }
  for (const char* key : {"device", "precision", "arithmetic", "fingerprint"}) {
    if (summary.contains(key)) {  // older runs lack some
      require(key, "a text", [](const Json& value) { return value.is_string(); });
    }
  }
  for (const char* key : {"seed", "rounds", "participations"}) {
    require(key, "a count", [](const Json& value) { return value.is_number_unsigned(); });
  }
  for (const char* key : {"best", "last", "bytes_up", "bytes_down", "wall_seconds"}) {
    require(key, "a number", [](const Json& value) { return value.is_number(); });
  }
  // Null where not all of the last ten rounds were evaluated.
  require("last10", "a number", [](const Json& v) { return v.is_number() || v.is_null(); });
  rename_flag_quality(summary);
  return summary;
}

Experiment read_run_experiment(const fs::path& directory, const Registry& registry) {
  const fs::path path = directory / kExperimentFile;
  if (!fs::exists(path)) {
    throw Error(ErrorKind::run, fmt::format("{} is not a run directory: it has no experiment.toml",
                                            directory.string()));
  }
  first_event(directory);  // a newer format says more than a key that is not known here
  Experiment experiment = load_experiment(path, {}, registry);
  experiment.rounds_given = false;  // every key is written there, so it says nothing
  experiment.train_given.clear();
  return experiment;
}

std::optional<ComputedWith> read_computed_with(const fs::path& directory) {
  const fs::path path = directory / kEventsFile;
  const Json started = first_event(directory);
  if (!started.contains("arithmetic")) {
    return std::nullopt;
  }
  try {
    return ComputedWith{printable(started.at("arithmetic").get<std::string>()),
                        printable(started.value("fingerprint", ""))};
  } catch (const Json::exception&) {
    throw Error(ErrorKind::run, fmt::format("{}:1: not an event", path.string()));
  }
}

void check_arithmetic(const fs::path& directory) {
  const auto recorded = read_computed_with(directory);
  const std::string now = current_arithmetic();
  if (recorded && recorded->arithmetic != kUnnamedArithmetic && recorded->arithmetic != now) {
    throw Error(ErrorKind::run,
                fmt::format("{} was computed with the arithmetic {}, not {}", directory.string(),
                            recorded->arithmetic, now),
                fmt::format("use --arithmetic {}, or start a new run with 'winnow run'",
                            recorded->arithmetic));
  }
}

void read_events(const fs::path& directory, const std::function<void(const Json&)>& take) {
  const fs::path path = directory / kEventsFile;
  if (fs::exists(path)) {  // or else killed before its first event
    for_each_event(path, std::numeric_limits<std::uintmax_t>::max(), take);
  }
}

History read_history(const fs::path& directory) {
  History history;
  read_events(directory, [&](const Json& event) {
    if (event.at("event") == "round") {
      history.push_back(round_of(event));
    }
  });
  return history;
}

}  // namespace winnow
