// What the report page shows, gathered from run directories.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "winnow/sweep/find_runs.h"

namespace winnow {

// Reads runs and sweeps, finished or under way. Reading again reads only the runs that changed, so
// that a page can ask every other second. Not thread-safe.
class ReportReader {
 public:
  // Run and sweep directories; looked at when read. The registry must outlive it; without one it
  // is what Winnow brings.
  explicit ReportReader(std::vector<std::string> directories);
  ReportReader(std::vector<std::string> directories, const Registry& registry);

  // Changes whenever a file that read() would look at does.
  std::string stamp() const;

  // {winnow_report, version, runs, partitions}, and arena (arena_json()) of a single directory
  // whose sweep is one. A run has id (its folder), row, column, seed (text), status (waiting,
  // started, stopped or finished) and, as far as the folder holds them, experiment, planned_rounds,
  // history (one list per column of the log), summary, findings (with the mixture of two normal
  // distributions fitted to every score), labels (judge_labels() at the times that the method keeps
  // them), norms (NormCollector; the only thing that may be thinned out), members (of a federation
  // that is or was served, checked_members()) and partition, its place in `partitions`: runs that
  // share a partition share the entry. Throws Error naming the folder or the file that is missing
  // or damaged.
  Json read();

 private:
  struct Known {
    std::string stamp;
    Json run;
    std::string partition;  // as text; "" for none
  };
  const Known& known(const RunPlace& place);

  std::vector<std::string> directories_;
  const Registry& registry_;
  std::map<std::string, Known> known_;  // by folder
};

}  // namespace winnow
