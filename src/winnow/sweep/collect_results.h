// The results that tables are made of, out of run and sweep directories.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "winnow/base/json.h"
#include "winnow/experiment/registry.h"
#include "winnow/report/table.h"

namespace winnow {

// The runs of the directories, called as find_runs() calls them, with what their summaries have of
// these metrics. Throws as find_runs() does.
std::vector<RunResult> collect_results(const std::vector<std::string>& directories,
                                       const std::vector<std::string>& metrics,
                                       const Registry& registry);

// Adds to the summary of a finished run what follows from its rounds: what it took to reach each
// target, and last10, which older versions took over evaluations instead of rounds.
void add_from_history(const std::filesystem::path& directory,
                      const std::vector<std::string>& metrics, Json& summary);

}  // namespace winnow
