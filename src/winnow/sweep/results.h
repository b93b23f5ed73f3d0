// A results file: one CSV line for each finished run of a sweep, small enough to be kept for ever.
// Tables are made from it without the run directories.
//   row, column, seed   as the sweep calls the run
//   cell                what the sweep file set for it (cell_hash())
//   further columns     numbers, texts and truth values of its summary, named by their place there:
//                       best, detection/flag_precision, cost@80, device, ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "winnow/base/json.h"
#include "winnow/report/table.h"
#include "winnow/sweep/sweep.h"

namespace winnow {

struct ResultLine {
  std::string row;
  std::string column;
  std::uint64_t seed = 0;
  std::string cell;
  Json summary;  // the part of it that the file has
};

// Largest file that is read, in bytes.
inline constexpr std::uintmax_t kLargestResults = 64 << 20;

// With a header. `costs` are the cost@N that summaries hold.
std::string write_results(const std::vector<ResultLine>& lines,
                          const std::vector<std::string>& costs);
// Throws Error(kind run) "FILE:LINE: what is wrong".
std::vector<ResultLine> read_results(const std::filesystem::path& file);

// Whether a file has a result of this run.
bool has_result(const std::vector<ResultLine>& lines, const SweepRun& run);

// The runs of a sweep with what a results file has of them. Lines for other settings than the sweep
// file has today do not count. Where the file has results in more than one precision, the rows of
// all but the most frequent one say so and stand below.
std::vector<RunResult> join_results(const Sweep& sweep, const std::vector<ResultLine>& lines);

}  // namespace winnow
