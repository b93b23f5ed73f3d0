// A sweep: a grid of runs from one file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "winnow/report/table.h"
#include "winnow/run/experiment.h"

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

// A grid may have this many runs; every one of them is in memory, and checked before any is
// started.
constexpr std::size_t kMaxSweepRuns = 100'000;

struct Sweep {
  std::string name;
  std::vector<SweepRun> runs;
  Json paper = nullptr;  // blocks of published figures (run/paper.h), where there are any
};

// How much of a recipe is run: all of it, or a small form that shows that it works (run/smoke.h):
// one seed, the first column of every row and every column of the first row.
enum class Scale { full, smoke };

// Reads an experiment file with
//   [grid]       "key" = [values]: one axis per key, all combinations
//   [[row]]      name = "...", set = { "key" = value, ... }: one axis of named rows
//   [[column]]   the same for columns
//   [paper]      published figures for `winnow table --paper` (run/paper.h)
//   [smoke]      "key" = value: what the small form of the sweep sets besides its general rule
// The row label is the [[row]] name, or the method; the column label is the [[column]] name and the
// values of every other axis but the seed. Every run is checked here, before any is started; errors
// name the file and the run. At least one of the three parts must be there. An override of a key
// that the grid sets would have no effect and is refused.
Sweep load_sweep(const std::filesystem::path& file, const std::vector<Override>& overrides,
                 const Registry& registry, Scale scale = Scale::full);

// What is known of a run from its directory alone.
enum class RunStatus { missing, started, finished };
RunStatus run_status(const std::filesystem::path& directory);

// sweep.json, the index: which runs make up the sweep, and the published figures it carries.
void write_sweep_index(const std::filesystem::path& directory, const Sweep& sweep);
bool is_sweep(const std::filesystem::path& directory);

// Where a run lies and how tables and reports call it.
struct RunPlace {
  std::string row = {};
  std::string column = {};
  std::uint64_t seed = 0;
  std::filesystem::path directory = {};  // of a run that a sweep has not begun: not there yet
  std::string cell = {};                 // SweepRun::cell; empty: of an earlier version
  PublishedByMetric published = {};      // for its cell, where the sweep carries figures
};

struct SweepIndex {
  std::string name;
  std::vector<RunPlace> runs;
  std::vector<std::string> paper_metrics;  // of the published figures
};

// Throws Error(kind run) naming the index when it is damaged.
SweepIndex read_sweep_index(const std::filesystem::path& directory);

}  // namespace winnow
