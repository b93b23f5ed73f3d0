#include "winnow/sweep/axes.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"

namespace winnow {
namespace {

// A grid may have this many runs; every one of them is in memory, and checked before any is
// started.
constexpr std::size_t kMaxSweepRuns = 100'000;

[[noreturn]] void refuse_axes(const std::string& message, const std::string& hint = "") {
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

SweepAxis grid_axis(const std::string& key, const Json& values, bool has_rows) {
  if (!values.is_array() || values.empty()) {
    refuse_axes(fmt::format("grid.\"{}\": expected a list of values", key));
  }
  SweepAxis axis;
  const bool is_method = key == "method.name" || key == "method";
  axis.kind = key == "seed"            ? SweepAxis::Kind::seed
              : is_method && !has_rows ? SweepAxis::Kind::row
                                       : SweepAxis::Kind::column;
  const std::string last = key.substr(key.rfind('.') == std::string::npos ? 0 : key.rfind('.') + 1);
  for (const Json& value : values) {
    const std::string text = value_label(value);
    const bool bare = axis.kind == SweepAxis::Kind::row || value.is_object() || value.is_string();
    axis.choices.push_back({bare ? text : fmt::format("{}={}", last, text), {{key, value}}});
  }
  return axis;
}

// Names become parts of directory names; what slug() makes of these would be hidden or unreadable.
void check_label(const std::string& axis, const std::string& label) {
  const bool control =
      std::ranges::any_of(label, [](unsigned char c) { return c < 32 || c == 127; });
  if (label.front() == '.' || control) {
    refuse_axes(
        fmt::format("[[{}]] name = {}: expected no '.' at its beginning and no control characters",
                    axis, Json(label).dump()));
  }
}

SweepAxis named_axis(const std::string& name, const Json& entries, SweepAxis::Kind kind) {
  if (!entries.is_array()) {
    refuse_axes(fmt::format("{}: expected a list of tables", name),
                fmt::format("write [[{}]], with two brackets on each side", name));
  }
  if (entries.empty()) {
    refuse_axes(fmt::format("{}: the list is empty", name));
  }
  SweepAxis axis{kind, {}};
  for (const Json& entry : entries) {
    if (!entry.is_object()) {
      refuse_axes(fmt::format("{}: expected a list of tables", name));
    }
    SweepAxis::Choice choice;
    for (const auto& [key, value] : entry.items()) {
      if (key == "name" && value.is_string()) {
        choice.label = value.get<std::string>();
      } else if (key == "set" && value.is_object()) {
        for (const auto& [path, setting] : value.items()) {
          choice.sets.emplace_back(path, setting);
        }
      } else {
        refuse_axes(fmt::format("[[{}]]: unexpected '{}'", name, key),
                    "it takes name = \"...\" and set = { \"key\" = value, ... }");
      }
    }
    if (choice.label.empty()) {
      refuse_axes(fmt::format("[[{}]]: an entry has no name", name));
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
    refuse_axes("schedule: expected a table of methods to settings");
  }
  for (const auto& [name, settings] : schedule.items()) {
    known.find(name);
    if (!settings.is_object()) {
      refuse_axes(fmt::format("schedule.{}: expected a table of keys to values", name),
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
SweepAxis methods_axis(const Json& given, const Json& schedule, const Methods& known,
                       bool is_arena) {
  std::vector<std::string> names;
  if (given == "all") {
    names = all_names(known, is_arena);
  } else if (given.is_array() && !given.empty() &&
             std::ranges::all_of(given, [](const Json& name) { return name.is_string(); })) {
    names = given.get<std::vector<std::string>>();
  } else {
    refuse_axes(fmt::format("methods = {}: expected \"all\" or a list of names", given.dump()),
                "'winnow list methods' shows them all");
  }
  if (!schedule.is_null()) {
    check_schedule(schedule, known);
  }
  SweepAxis axis{SweepAxis::Kind::row, {}};
  for (const std::string& name : names) {
    const MethodInfo& info = known.find(name);
    SweepAxis::Choice choice{name + (info.truth == Truth::none ? "" : " (uses ground truth)"),
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

void check_size(const std::vector<SweepAxis>& axes) {
  std::size_t runs = 1;
  for (const SweepAxis& axis : axes) {
    if (axis.choices.size() > kMaxSweepRuns / runs) {
      refuse_axes(fmt::format("the grid has more than {} runs", kMaxSweepRuns),
                  "leave out values, or cut it into several files");
    }
    runs *= axis.choices.size();
  }
}

}  // namespace

std::vector<SweepAxis> take_axes(Json& tree, const Methods& known) {
  std::vector<SweepAxis> axes;
  const bool has_rows = tree.contains("row") || tree.contains("methods");
  if (tree.contains("row") && tree.contains("methods")) {
    refuse_axes("methods and [[row]] are both there",
                "methods has a row for each method; leave one out");
  }
  if (tree.contains("methods")) {
    axes.push_back(methods_axis(tree["methods"], tree.value("schedule", Json()), known,
                                tree.contains("arena")));
  } else if (tree.contains("schedule")) {
    refuse_axes("schedule is there without methods",
                "it says what the rows of methods = \"all\" set");
  }
  if (tree.contains("row")) {
    axes.push_back(named_axis("row", tree["row"], SweepAxis::Kind::row));
  }
  if (tree.contains("column")) {
    axes.push_back(named_axis("column", tree["column"], SweepAxis::Kind::column));
  }
  if (tree.contains("grid")) {
    if (!tree["grid"].is_object()) {
      refuse_axes("grid: expected a table of keys to lists");
    }
    for (const auto& [key, values] : tree["grid"].items()) {
      axes.push_back(grid_axis(key, values, has_rows));
    }
  }
  if (axes.empty()) {
    refuse_axes("there is nothing to sweep over",
                "add a [grid], [[row]], [[column]] or methods, or use winnow run");
  }
  for (const char* part : {"methods", "schedule", "row", "column", "grid"}) {
    tree.erase(part);
  }
  check_size(axes);
  return axes;
}

}  // namespace winnow
