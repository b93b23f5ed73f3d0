#include "winnow/report/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/report/table_model.h"

namespace winnow {
namespace arenas {
namespace {

// What is known of one row in one setting.
struct Found {
  std::map<std::uint64_t, double> by_seed = {};
};

struct Line {
  std::string name;
  std::vector<const RunResult*> runs = {};
  std::vector<Found> cells = {};
};

std::optional<double> mean_of(const std::vector<double>& values) {
  if (values.empty()) {
    return std::nullopt;
  }
  double sum = 0.0;
  for (const double value : values) {
    sum += value;
  }
  return sum / static_cast<double>(values.size());
}

std::optional<double> mean_over_runs(const std::string& metric,
                                     const std::vector<const RunResult*>& runs) {
  const tables::Metric known = tables::find_metric(metric);
  std::vector<double> values;
  for (const RunResult* run : runs) {
    if (const auto value = tables::value_of(known, *run)) {
      values.push_back(*value);
    }
  }
  return mean_of(values);
}

std::size_t place_of(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    names.push_back(name);
    return names.size() - 1;
  }
  return static_cast<std::size_t>(found - names.begin());
}

// Rows in the order in which results first name them.
std::vector<Line> lines_of(const std::vector<RunResult>& results, const std::string& metric,
                           std::vector<std::string>& settings) {
  const tables::Metric known = tables::find_metric(metric);
  std::vector<std::string> names;
  for (const RunResult& run : results) {
    place_of(names, run.row);
    place_of(settings, run.column);
  }
  std::vector<Line> lines;
  for (const std::string& name : names) {
    lines.push_back({name, {}, std::vector<Found>(settings.size())});
  }
  for (const RunResult& run : results) {
    const auto value = tables::value_of(known, run);
    if (!value) {
      continue;
    }
    Line& line = lines[place_of(names, run.row)];
    line.runs.push_back(&run);
    line.cells[place_of(settings, run.column)].by_seed[run.seed] = *value;
  }
  return lines;
}

// Over the seeds that both have.
std::optional<double> difference(const Found& ours, const Found& reference) {
  std::vector<double> values;
  for (const auto& [seed, value] : ours.by_seed) {
    if (const auto other = reference.by_seed.find(seed); other != reference.by_seed.end()) {
      values.push_back(value - other->second);
    }
  }
  return mean_of(values);
}

ArenaRow row_of(const Line& line, const Line& reference, const std::vector<std::string>& settings) {
  ArenaRow row{.name = line.name, .runs = line.runs.size()};
  row.uses_truth =
      std::ranges::any_of(line.runs, [](const RunResult* run) { return tables::uses_truth(*run); });
  for (std::size_t i = 0; i < line.cells.size(); ++i) {
    const Found& found = line.cells[i];
    std::vector<double> values;
    for (const auto& [seed, value] : found.by_seed) {
      values.push_back(value);
    }
    ArenaCell cell{.runs = values.size(), .mean = mean_of(values).value_or(0.0)};
    cell.difference = difference(found, reference.cells[i]);
    row.settings += cell.runs > 0 ? 1 : 0;
    // The reference itself loses nothing.
    if (&line != &reference && cell.difference && (!row.worst || *cell.difference < *row.worst)) {
      row.worst = cell.difference;
      row.worst_setting = settings[i];
    }
    row.cells.push_back(cell);
  }
  row.bytes = mean_over_runs("bytes", line.runs);
  row.seconds = mean_over_runs("seconds", line.runs);
  return row;
}

// What is printed with two decimals, as a whole number: a reader must not see two equal figures and
// two ranks.
std::int64_t printed(const ArenaCell& cell) {
  return std::llround(100.0 * cell.mean);
}

void rank_setting(std::vector<ArenaRow>& rows, std::size_t setting) {
  std::vector<ArenaCell*> cells;
  std::vector<ArenaRow*> owners;
  for (ArenaRow& row : rows) {
    if (!row.uses_truth && row.cells[setting].runs > 0) {
      cells.push_back(&row.cells[setting]);
      owners.push_back(&row);
    }
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::int64_t own = printed(*cells[i]);
    const auto better =
        std::ranges::count_if(cells, [&](const ArenaCell* cell) { return printed(*cell) > own; });
    const auto tied =
        std::ranges::count_if(cells, [&](const ArenaCell* cell) { return printed(*cell) == own; });
    // The places better + 1 to better + tied.
    cells[i]->rank = static_cast<double>(better) + (static_cast<double>(tied) + 1.0) / 2.0;
    owners[i]->wins += better == 0 ? 1 : 0;
  }
}

void set_mean_rank(ArenaRow& row) {
  std::vector<double> ranks;
  for (const ArenaCell& cell : row.cells) {
    if (cell.rank) {
      ranks.push_back(*cell.rank);
    }
  }
  row.rank = mean_of(ranks);
}

// The best first; of equals the one with more wins, then as they came. Bounds stay behind.
bool comes_before(const ArenaRow& a, const ArenaRow& b) {
  if (a.uses_truth != b.uses_truth) {
    return b.uses_truth;
  }
  if (a.rank != b.rank) {
    return a.rank && (!b.rank || *a.rank < *b.rank);
  }
  return a.wins > b.wins;
}

Json rounded(const std::optional<double>& value) {
  constexpr double kDigits = 1e6;
  return value ? Json(std::round(*value * kDigits) / kDigits) : Json(nullptr);
}

Json cell_json(const ArenaCell& cell) {
  return cell.runs == 0 ? Json(nullptr)
                        : Json{{"runs", cell.runs},
                               {"mean", rounded(cell.mean)},
                               {"rank", rounded(cell.rank)},
                               {"difference", rounded(cell.difference)}};
}

Json reveals_json(const std::optional<std::vector<Revealed>>& reveals) {
  if (!reveals) {
    return nullptr;
  }
  Json list = Json::array();
  for (const Revealed& one : *reveals) {
    list.push_back({{"field", one.field}, {"tells", one.tells}});
  }
  return list;
}

}  // namespace
}  // namespace arenas

const std::vector<std::string>& arena_metrics() {
  static const std::vector<std::string> names{"best", "last", "last10", "top5"};
  return names;
}

Arena make_arena(const std::vector<RunResult>& results, const ArenaRule& rule,
                 const RevealedByRow& reveals) {
  Arena arena{.rule = rule};
  const std::vector<arenas::Line> lines = arenas::lines_of(results, rule.metric, arena.settings);
  const auto reference = std::ranges::find(lines, rule.reference, &arenas::Line::name);
  if (reference == lines.end()) {
    throw Error(ErrorKind::run,
                fmt::format("there is no row '{}', with which an arena compares", rule.reference),
                "arena.reference of the sweep file names another");
  }
  arena.cells = lines.size() * arena.settings.size();
  arena.missing = arena.cells;
  for (const arenas::Line& line : lines) {
    if (line.runs.empty()) {
      arena.not_begun.push_back(line.name);
      continue;
    }
    arena.rows.push_back(arenas::row_of(line, *reference, arena.settings));
    ArenaRow& row = arena.rows.back();
    arena.missing -= row.settings;
    if (const auto known = reveals.find(row.name); known != reveals.end()) {
      row.reveals = known->second;
    }
  }
  for (std::size_t setting = 0; setting < arena.settings.size(); ++setting) {
    arenas::rank_setting(arena.rows, setting);
  }
  std::ranges::for_each(arena.rows, arenas::set_mean_rank);
  std::ranges::stable_sort(arena.rows, arenas::comes_before);
  return arena;
}

Json arena_json(const Arena& arena) {
  Json methods = Json::array();
  for (const ArenaRow& row : arena.rows) {
    Json cells = Json::array();
    std::ranges::transform(row.cells, std::back_inserter(cells), arenas::cell_json);
    methods.push_back({{"name", row.name},
                       {"uses_ground_truth", row.uses_truth},
                       {"rank", arenas::rounded(row.rank)},
                       {"wins", row.wins},
                       {"settings", row.settings},
                       {"runs", row.runs},
                       {"worst", row.worst ? Json{{"points", arenas::rounded(row.worst)},
                                                  {"setting", row.worst_setting}}
                                           : Json(nullptr)},
                       {"bytes", arenas::rounded(row.bytes)},
                       {"seconds", arenas::rounded(row.seconds)},
                       {"reveals", arenas::reveals_json(row.reveals)},
                       {"cells", std::move(cells)}});
  }
  return {{"metric", arena.rule.metric},  {"reference", arena.rule.reference},
          {"settings", arena.settings},   {"methods", std::move(methods)},
          {"not_begun", arena.not_begun}, {"cells", arena.cells},
          {"missing", arena.missing}};
}

}  // namespace winnow
