#include "winnow/sweep/collect_results.h"

#include <optional>

#include "winnow/run/metrics.h"
#include "winnow/run/runner.h"
#include "winnow/sweep/find_runs.h"

namespace winnow {

void add_from_history(const std::filesystem::path& directory,
                      const std::vector<std::string>& metrics, Json& summary) {
  for (const std::string& metric : metrics) {
    const auto target = cost_target(metric);
    if (!target && metric != "last10") {
      continue;
    }
    const History history = read_history(directory);
    const std::optional<double> value = target
                                            ? std::optional<double>(targeted_cost(history, *target))
                                            : accuracies(history).last10;
    summary[metric] = value ? Json(*value) : Json(nullptr);
  }
}

std::vector<RunResult> collect_results(const std::vector<std::string>& directories,
                                       const std::vector<std::string>& metrics,
                                       const Registry& registry) {
  std::vector<RunResult> results;
  for (const RunPlace& run : find_runs(directories, registry)) {
    Json summary = read_summary(run.directory);
    if (!summary.is_null()) {
      add_from_history(run.directory, metrics, summary);
    }
    results.push_back({run.row, run.column, run.seed, std::move(summary), run.published});
  }
  return results;
}

}  // namespace winnow
