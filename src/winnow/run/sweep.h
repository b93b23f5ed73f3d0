// A sweep: a grid of runs from one file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "winnow/run/experiment.h"

namespace winnow {

// One cell of the grid for one seed.
struct SweepRun {
  std::string id;   // its directory below the sweep's
  std::string row;  // labels in the table
  std::string column;
  std::uint64_t seed = 0;
  Experiment experiment;
};

struct Sweep {
  std::string name;
  std::vector<SweepRun> runs;
  Json paper = nullptr;  // the [paper] table, where there is one
};

// Reads an experiment file with
//   [grid]       "key" = [values]: one axis per key, all combinations
//   [[row]]      name = "...", set = { "key" = value, ... }: one axis of named rows
//   [[column]]   the same for columns
//   [paper]      metric = "best", figures = { "row" = number }, or { "row" = { "column" = number }
//   }
//                where there are columns: published figures for `winnow table --paper`
// The row label is the [[row]] name, or the method; the column label is the [[column]] name and the
// values of every other axis but the seed. Every run is checked here, before any is started; errors
// name the file and the run. At least one of the three parts must be there. An override of a key
// that the grid sets would have no effect and is refused.
Sweep load_sweep(const std::filesystem::path& file, const std::vector<Override>& overrides,
                 const Registry& registry);

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
  std::optional<double> published = {};  // the figure of its cell, where the sweep carries any
};

struct SweepIndex {
  std::string name;
  std::vector<RunPlace> runs;
  std::string paper_metric;  // of the published figures; empty: there are none
};

// Throws Error(kind run) naming the index when it is damaged.
SweepIndex read_sweep_index(const std::filesystem::path& directory);

}  // namespace winnow
