#include "winnow/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/experiment/toml.h"
#include "winnow/sweep/arena_results.h"
#include "winnow/sweep/paper.h"
#include "winnow/sweep/smoke.h"

namespace winnow {
namespace {

using KeyValues = std::vector<std::pair<std::string, Json>>;

// One choice on an axis: what it sets, and how it is called.
struct Choice {
  std::string label;
  KeyValues sets;
  KeyValues in_small_form = {};  // what the small form sets after all else
};

enum class AxisKind { seed, row, column };

struct Axis {
  AxisKind kind = AxisKind::column;
  std::vector<Choice> choices;
};

[[noreturn]] void fail(const std::string& message, const std::string& hint = "") {
  throw Error(ErrorKind::experiment, message, hint);
}

std::string value_label(const Json& value) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  if (value.is_object() && value.contains("name") && value["name"].is_string()) {
    return value["name"].get<std::string>();
  }
  return value.dump();
}

Axis grid_axis(const std::string& key, const Json& values, bool has_rows) {
  if (!values.is_array() || values.empty()) {
    fail(fmt::format("grid.\"{}\": expected a list of values", key));
  }
  Axis axis;
  const bool is_method = key == "method.name" || key == "method";
  axis.kind = key == "seed"            ? AxisKind::seed
              : is_method && !has_rows ? AxisKind::row
                                       : AxisKind::column;
  const std::string last = key.substr(key.rfind('.') == std::string::npos ? 0 : key.rfind('.') + 1);
  for (const Json& value : values) {
    const std::string text = value_label(value);
    const bool bare = axis.kind == AxisKind::row || value.is_object() || value.is_string();
    axis.choices.push_back({bare ? text : fmt::format("{}={}", last, text), {{key, value}}});
  }
  return axis;
}

// Names become parts of directory names; what slug() makes of these would be hidden or unreadable.
void check_label(const std::string& axis, const std::string& label) {
  const bool control =
      std::ranges::any_of(label, [](unsigned char c) { return c < 32 || c == 127; });
  if (label.front() == '.' || control) {
    fail(fmt::format("[[{}]] name = {}: expected no '.' at its beginning and no control characters",
                     axis, Json(label).dump()));
  }
}

Axis named_axis(const std::string& name, const Json& entries, AxisKind kind) {
  if (!entries.is_array()) {
    fail(fmt::format("{}: expected a list of tables", name),
         fmt::format("write [[{}]], with two brackets on each side", name));
  }
  if (entries.empty()) {
    fail(fmt::format("{}: the list is empty", name));
  }
  Axis axis{kind, {}};
  for (const Json& entry : entries) {
    if (!entry.is_object()) {
      fail(fmt::format("{}: expected a list of tables", name));
    }
    Choice choice;
    for (const auto& [key, value] : entry.items()) {
      if (key == "name" && value.is_string()) {
        choice.label = value.get<std::string>();
      } else if (key == "set" && value.is_object()) {
        for (const auto& [path, setting] : value.items()) {
          choice.sets.emplace_back(path, setting);
        }
      } else {
        fail(fmt::format("[[{}]]: unexpected '{}'", name, key),
             "it takes name = \"...\" and set = { \"key\" = value, ... }");
      }
    }
    if (choice.label.empty()) {
      fail(fmt::format("[[{}]]: an entry has no name", name));
    }
    check_label(name, choice.label);
    axis.choices.push_back(std::move(choice));
  }
  return axis;
}

KeyValues key_values(const Json& table) {
  KeyValues list;
  for (const auto& [key, value] : table.items()) {
    list.emplace_back(key, value);
  }
  return list;
}

void check_schedule(const Json& schedule, const Methods& known) {
  if (!schedule.is_object()) {
    fail("schedule: expected a table of methods to settings");
  }
  for (const auto& [name, settings] : schedule.items()) {
    known.find(name);
    if (!settings.is_object()) {
      fail(fmt::format("schedule.{}: expected a table of keys to values", name),
           "such as fedrn = { \"method.warmup\" = 20 }");
    }
  }
}

// All methods, or those of them that compete.
std::vector<std::string> all_names(const Methods& known, bool only_contestants) {
  std::vector<std::string> names;
  for (const MethodInfo& info : known) {
    if (info.competes || !only_contestants) {
      names.push_back(info.name);
    }
  }
  return names;
}

// A row for each method, with its settings in the schedule or, where the file has none, those by
// which a short run gets through all its phases.
Axis methods_axis(const Json& given, const Json& schedule, const Methods& known, bool is_arena) {
  std::vector<std::string> names;
  if (given == "all") {
    names = all_names(known, is_arena);
  } else if (given.is_array() && !given.empty() &&
             std::ranges::all_of(given, [](const Json& name) { return name.is_string(); })) {
    names = given.get<std::vector<std::string>>();
  } else {
    fail(fmt::format("methods = {}: expected \"all\" or a list of names", given.dump()),
         "'winnow list methods' shows them all");
  }
  if (!schedule.is_null()) {
    check_schedule(schedule, known);
  }
  Axis axis{AxisKind::row, {}};
  for (const std::string& name : names) {
    const MethodInfo& info = known.find(name);
    Choice choice{name + (info.truth == Truth::none ? "" : " (uses ground truth)"),
                  {{"method.name", name}}};
    const KeyValues brief = key_values(info.smoke);
    const KeyValues own =
        schedule.is_null() ? brief : key_values(schedule.value(name, Json::object()));
    choice.sets.insert(choice.sets.end(), own.begin(), own.end());
    if (!schedule.is_null()) {
      choice.in_small_form = brief;
    }
    axis.choices.push_back(std::move(choice));
  }
  return axis;
}

// An override that every run of the grid overrides again was meant otherwise.
void refuse_idle(const std::vector<Override>& overrides, const Json& tree) {
  for (const Override& change : overrides) {
    if (tree.contains("grid") && tree["grid"].contains(change.key)) {
      throw Error(ErrorKind::usage,
                  fmt::format("{} is an axis of the [grid]: it cannot be overridden", change.key),
                  "choose among the runs with --only, or change the file");
    }
  }
}

// Takes the sweep's own parts out of the tree.
std::vector<Axis> take_axes(Json& tree, const Methods& known) {
  std::vector<Axis> axes;
  const bool has_rows = tree.contains("row") || tree.contains("methods");
  if (tree.contains("row") && tree.contains("methods")) {
    fail("methods and [[row]] are both there", "methods has a row for each method; leave one out");
  }
  if (tree.contains("methods")) {
    axes.push_back(methods_axis(tree["methods"], tree.value("schedule", Json()), known,
                                tree.contains("arena")));
  } else if (tree.contains("schedule")) {
    fail("schedule is there without methods", "it says what the rows of methods = \"all\" set");
  }
  if (tree.contains("row")) {
    axes.push_back(named_axis("row", tree["row"], AxisKind::row));
  }
  if (tree.contains("column")) {
    axes.push_back(named_axis("column", tree["column"], AxisKind::column));
  }
  if (tree.contains("grid")) {
    if (!tree["grid"].is_object()) {
      fail("grid: expected a table of keys to lists");
    }
    for (const auto& [key, values] : tree["grid"].items()) {
      axes.push_back(grid_axis(key, values, has_rows));
    }
  }
  if (axes.empty()) {
    fail("there is nothing to sweep over",
         "add a [grid], [[row]], [[column]] or methods, or use winnow run");
  }
  for (const char* part : {"methods", "schedule", "row", "column", "grid"}) {
    tree.erase(part);
  }
  return axes;
}

// Every run of the grid is made and checked before the first one starts.
void check_size(const std::vector<Axis>& axes) {
  std::size_t runs = 1;
  for (const Axis& axis : axes) {
    if (axis.choices.size() > kMaxSweepRuns / runs) {
      fail(fmt::format("the grid has more than {} runs", kMaxSweepRuns),
           "leave out values, or cut it into several files");
    }
    runs *= axis.choices.size();
  }
}

std::string slug(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '=';
    if (plain) {
      result += c;
    } else if (!result.empty() && result.back() != '-') {
      result += '-';
    }
  }
  while (!result.empty() && result.back() == '-') {
    result.pop_back();
  }
  return result.empty() ? "run" : result;
}

// What all runs of a sweep are made from.
struct Source {
  Json tree;  // without the parts of the sweep
  std::filesystem::path folder;
  Scale scale;
  Json smoke;  // the [smoke] table, or null
};

// Fills in the experiment of a run; errors name the run.
void make_experiment(const Source& source, const std::vector<const Choice*>& choices,
                     const Registry& registry, SweepRun& run) {
  try {
    Json tree = source.tree;
    const auto set_all = [&](KeyValues Choice::*part) {
      for (const Choice* choice : choices) {
        for (const auto& [key, value] : choice->*part) {
          set_by_path(tree, key, value);
        }
      }
    };
    set_all(&Choice::sets);
    anchor_paths(tree, source.folder);
    if (source.scale == Scale::smoke) {
      set_all(&Choice::in_small_form);
      shrink(tree, source.smoke, registry);
      set_all(&Choice::in_small_form);  // as many rounds as the phases of the method need
    }
    run.experiment = parse_experiment(tree, registry);
    run.cell = cell_hash(tree);
  } catch (const Error& error) {
    std::vector<std::string> labels;
    labels.reserve(choices.size());
    for (const Choice* choice : choices) {
      labels.push_back(choice->label);
    }
    fail(fmt::format("run '{}': {}", join(labels, ", "), error.what()), error.hint());
  }
}

SweepRun make_run(const Source& source, const std::vector<Axis>& axes,
                  const std::vector<std::size_t>& picks, const Registry& registry) {
  SweepRun run;
  std::vector<const Choice*> choices;
  std::vector<std::string> columns;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Choice& choice = axes[i].choices[picks[i]];
    choices.push_back(&choice);
    if (axes[i].kind == AxisKind::row) {
      run.row = run.row.empty() ? choice.label : fmt::format("{} {}", run.row, choice.label);
    } else if (axes[i].kind == AxisKind::column) {
      columns.push_back(choice.label);
    }
  }
  run.column = join(columns, ", ");
  make_experiment(source, choices, registry, run);
  run.seed = run.experiment.seed;
  if (run.row.empty()) {
    run.row = run.experiment.method;
  }
  const std::string cell = run.column.empty() ? "" : fmt::format("_{}", slug(run.column));
  run.id = fmt::format("{}{}_s{}", slug(run.row), cell, run.seed);
  return run;
}

std::vector<std::pair<std::string, std::string>> cells_of(const std::vector<SweepRun>& runs) {
  std::vector<std::pair<std::string, std::string>> cells;
  for (const SweepRun& run : runs) {
    cells.emplace_back(run.row, run.column);
  }
  return cells;
}

// Every row and every column once, with the first seed: what one of them cannot do shows here.
void keep_first_row_and_column(std::vector<SweepRun>& runs) {
  const SweepRun first = runs.front();
  std::erase_if(runs, [&](const SweepRun& run) {
    return run.seed != first.seed || (run.row != first.row && run.column != first.column);
  });
}

Json take_part(Json& tree, const char* key) {
  if (!tree.contains(key)) {
    return nullptr;
  }
  Json part = tree[key];
  tree.erase(key);
  return part;
}

// The small form may have rows of some methods only.
Json take_smoke(Json& tree, Scale scale) {
  Json smoke = take_part(tree, "smoke");
  if (smoke.is_object() && smoke.contains("methods")) {
    if (scale == Scale::smoke) {
      tree["methods"] = smoke["methods"];
    }
    smoke.erase("methods");
  }
  return smoke.is_object() && smoke.empty() ? Json(nullptr) : smoke;
}

// With its defaults, and a reference that there is.
Json check_arena(const Json& part, const std::vector<SweepRun>& runs) {
  const ArenaRule rule = read_arena_rule(part);
  if (std::ranges::find(runs, rule.reference, &SweepRun::row) == runs.end()) {
    std::vector<std::string> rows;
    for (const SweepRun& run : runs) {
      if (std::ranges::count(rows, run.row) == 0) {
        rows.push_back(run.row);
      }
    }
    fail(fmt::format("arena.reference = \"{}\": there is no such row", rule.reference),
         suggestion(rule.reference, rows, "winnow sweep FILE --dry-run"));
  }
  return arena_rule_json(rule);
}

}  // namespace

Sweep make_sweep(Json tree, const std::filesystem::path& folder, const std::string& name,
                 const Registry& registry, Scale scale) {
  Sweep sweep;
  const Json smoke = take_smoke(tree, scale);
  const std::vector<Axis> axes = take_axes(tree, registry.methods);
  check_size(axes);
  const Json paper = take_part(tree, "paper");
  const Json arena = take_part(tree, "arena");
  sweep.name =
      tree.contains("name") && tree["name"].is_string() ? tree["name"].get<std::string>() : name;
  const Source source{std::move(tree), folder, scale, smoke};
  std::vector<std::size_t> picks(axes.size(), 0);
  std::set<std::string> ids;
  for (;;) {
    SweepRun run = make_run(source, axes, picks, registry);
    if (!ids.insert(run.id).second) {
      fail(fmt::format("two runs of the grid are both called '{}'", run.id),
           "give rows and columns names that differ");
    }
    sweep.runs.push_back(std::move(run));
    std::size_t axis = axes.size();
    while (axis > 0 && ++picks[axis - 1] == axes[axis - 1].choices.size()) {
      picks[--axis] = 0;
    }
    if (axis == 0) {
      break;
    }
  }
  if (!paper.is_null()) {
    sweep.paper = check_paper(paper, cells_of(sweep.runs));
  }
  if (!arena.is_null()) {
    sweep.arena = check_arena(arena, sweep.runs);
  }
  if (scale == Scale::smoke) {
    sweep.name += "-smoke";
    keep_first_row_and_column(sweep.runs);
  }
  return sweep;
}

Sweep load_sweep(const std::filesystem::path& file, const std::vector<Override>& overrides,
                 const Registry& registry, Scale scale) {
  Json tree = load_experiment_tree(file, overrides);
  try {
    refuse_idle(overrides, tree);
    return make_sweep(std::move(tree), std::filesystem::absolute(file).parent_path(),
                      file.stem().string(), registry, scale);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", file.string(), error.what()), error.hint());
  }
}

}  // namespace winnow
