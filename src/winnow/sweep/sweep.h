// A sweep: a grid of runs from one file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "winnow/experiment/experiment.h"

namespace winnow {

// One cell of the grid for one seed.
struct SweepRun {
  std::string id;   // its directory below the sweep's
  std::string row;  // labels in the table
  std::string column;
  std::uint64_t seed = 0;
  std::string cell;  // digest of what the file sets for it: see cell_hash()
  Experiment experiment;
};

struct Sweep {
  std::string name;
  std::vector<SweepRun> runs;
  Json paper = nullptr;  // blocks of published figures (sweep/paper.h), where there are any
  Json arena = nullptr;  // the rule of an arena (sweep/arena_results.h), where it is one
};

// How much of a recipe is run: all of it, or a small form that shows that it works (sweep/smoke.h):
// one seed, the first column of every row and every column of the first row.
enum class Scale { full, smoke };

// Reads an experiment file with
//   [grid]       "key" = [values]: one axis per key, all combinations
//   [[row]]      name = "...", set = { "key" = value, ... }: one axis of named rows
//   methods      instead of rows: "all", or a list of names; a row for each, with
//                MethodInfo::smoke;
//                in an arena "all" are those that compete
//   [schedule]   method = { "key" = value }: what these rows set instead; a method not named here
//                keeps its defaults, and MethodInfo::smoke is for the small form alone
//   [[column]]   the same for columns
//   [paper]      published figures for `winnow table --paper` (sweep/paper.h)
//   [arena]      winnow arena: metric = "last10", reference = "fedavg" (sweep/arena_results.h)
//   [smoke]      "key" = value: what the small form of the sweep sets besides its general rule;
//                methods = [names]: whose rows it has
// The row label is the [[row]] name, or the method; the column label is the [[column]] name and the
// values of every other axis but the seed. Every run is checked here, before any is started; errors
// name the file and the run. At least one of the first four parts must be there. An override of a
// key that the grid sets would have no effect and is refused.
Sweep load_sweep(const std::filesystem::path& file, const std::vector<Override>& overrides,
                 const Registry& registry, Scale scale = Scale::full);

// The same of a tree that is in memory. Relative paths in it are looked for from the current
// folder, then from `folder`; `name` is the sweep's where the tree has none.
Sweep make_sweep(Json tree, const std::filesystem::path& folder, const std::string& name,
                 const Registry& registry, Scale scale = Scale::full);

}  // namespace winnow
