#include "winnow/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/experiment/toml.h"
#include "winnow/sweep/arena_results.h"
#include "winnow/sweep/axes.h"
#include "winnow/sweep/paper.h"
#include "winnow/sweep/smoke.h"

namespace winnow {
namespace {

[[noreturn]] void fail(const std::string& message, const std::string& hint = "") {
  throw Error(ErrorKind::experiment, message, hint);
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
void make_experiment(const Source& source, const std::vector<const SweepAxis::Choice*>& choices,
                     const Registry& registry, SweepRun& run) {
  try {
    Json tree = source.tree;
    const auto set_all = [&](KeyValues SweepAxis::Choice::*part) {
      for (const SweepAxis::Choice* choice : choices) {
        for (const auto& [key, value] : choice->*part) {
          set_by_path(tree, key, value);
        }
      }
    };
    set_all(&SweepAxis::Choice::sets);
    anchor_paths(tree, source.folder);
    if (source.scale == Scale::smoke) {
      set_all(&SweepAxis::Choice::in_small_form);
      shrink(tree, source.smoke, registry);
      set_all(
          &SweepAxis::Choice::in_small_form);  // as many rounds as the phases of the method need
    }
    run.experiment = parse_experiment(tree, registry);
    run.cell = cell_hash(tree);
  } catch (const Error& error) {
    std::vector<std::string> labels;
    labels.reserve(choices.size());
    for (const SweepAxis::Choice* choice : choices) {
      labels.push_back(choice->label);
    }
    fail(fmt::format("run '{}': {}", join(labels, ", "), error.what()), error.hint());
  }
}

SweepRun make_run(const Source& source, const std::vector<SweepAxis>& axes,
                  const std::vector<std::size_t>& picks, const Registry& registry) {
  SweepRun run;
  std::vector<const SweepAxis::Choice*> choices;
  std::vector<std::string> columns;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const SweepAxis::Choice& choice = axes[i].choices[picks[i]];
    choices.push_back(&choice);
    if (axes[i].kind == SweepAxis::Kind::row) {
      run.row = run.row.empty() ? choice.label : fmt::format("{} {}", run.row, choice.label);
    } else if (axes[i].kind == SweepAxis::Kind::column) {
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
  const std::vector<SweepAxis> axes = take_axes(tree, registry.methods);
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
