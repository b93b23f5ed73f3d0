// What a sweep has written: its index and the state of its runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "winnow/report/table.h"
#include "winnow/sweep/sweep.h"

namespace winnow {

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
  Json arena = nullptr;                    // as in Sweep
};

// Throws Error(kind run) naming the index when it is damaged.
SweepIndex read_sweep_index(const std::filesystem::path& directory);

}  // namespace winnow
