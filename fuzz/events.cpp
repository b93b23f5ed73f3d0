// A run directory as reports, tables and audits read it: one of its files is the input, the others
// are right.
#include <array>
#include <filesystem>

#include "json_mutator.h"
#include "small_experiment.h"
#include "target.h"
#include "winnow/audit/run_evidence.h"
#include "winnow/base/files.h"
#include "winnow/report/figures.h"
#include "winnow/report/page.h"
#include "winnow/report/table.h"
#include "winnow/run/metrics.h"
#include "winnow/run/runner.h"
#include "winnow/sweep/find_runs.h"
#include "winnow/sweep/report_data.h"
#include "winnow/sweep/sweep_index.h"

using namespace winnow;

namespace {

constexpr std::array kFiles{"events.jsonl",    "summary.json", "findings.json", "partition.json",
                            "experiment.toml", "sweep.json",   "members.json"};

constexpr std::size_t kEvents = 0;
constexpr std::size_t kSummary = 1;
constexpr std::size_t kFindings = 2;
constexpr std::size_t kPartition = 3;
constexpr std::size_t kExperiment = 4;
constexpr std::size_t kSweep = 5;
constexpr std::size_t kMembers = 6;

constexpr const char* kSettings =
    "iterations = 1\nfinetune_rounds = 1\nusual_rounds = 1\nlid_neighbours = 5";

// A finished run, and a sweep of that run alone in the folder around it.
class Folder {
 public:
  Folder() {
    const Registry registry = builtin_registry();
    const std::string text = fuzz::small_experiment_text("fedcorr", kSettings);
    const Experiment experiment = fuzz::small_experiment(text, registry);
    RunObserver silence;
    start_run(experiment, registry, {1, "cpu"}, run(), nullptr, silence);
    for (const char* name : kFiles) {
      right_.push_back(std::filesystem::exists(run() / name) ? read_file(run() / name) : "");
    }
    // Defaults take time to read, and so does a method that has a base; they are not what is tried.
    right_.at(kExperiment) = fuzz::small_experiment_text("fedavg", "");
    scratch_.put(place(kExperiment), right_.at(kExperiment));
    right_.at(kSweep) = R"({"name":"s","runs":[{"id":"run","row":"a","column":"b","seed":1}],)"
                        R"("paper":{"metric":"best","figures":{"a":80.0}}})";
  }

  std::filesystem::path run() const { return scratch_.path() / "run"; }
  const std::filesystem::path& sweep() const { return scratch_.path(); }

  // All files are right again, whatever became of the last input.
  void mend() {
    for (const std::size_t file : touched_) {
      if (file == kSweep || file == kMembers) {  // only where they are asked for
        std::filesystem::remove(scratch_.path() / place(file));
      } else {
        scratch_.put(place(file), right_.at(file));
      }
    }
    touched_.clear();
  }
  void put(std::size_t file, std::string_view content) {
    touched_.push_back(file);
    scratch_.put(place(file), content);
  }
  void put_sweep() { put(kSweep, right_.at(kSweep)); }
  void unfinish() {
    touched_.push_back(kSummary);
    std::filesystem::remove(run() / kFiles.at(kSummary));
  }

 private:
  std::filesystem::path place(std::size_t file) const {
    const std::filesystem::path name = kFiles.at(file);
    return file == kSweep ? name : "run" / name;
  }

  fuzz::Scratch scratch_;
  std::vector<std::string> right_;
  std::vector<std::size_t> touched_;
};

void report(const std::filesystem::path& directory, const Registry& registry) {
  ReportReader reader({directory.string()}, registry);
  const Json data = reader.read();
  render_page(data);
  report_files(data);
}

// As the table command does it, but for the search for runs, which the report has done.
void table(const std::filesystem::path& directory) {
  const Json summary = read_summary(directory);
  targeted_cost(read_history(directory), 0.5);
  TableOptions options;
  if (is_sweep(directory.parent_path())) {
    options.paper_metrics = read_sweep_index(directory.parent_path()).paper_metrics;
  }
  options.metrics = table_metrics();
  if (!summary.is_null()) {
    render_table({{"row", "column", 1, summary}}, options);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Folder folder;
  static const Registry registry = builtin_registry();
  fuzz::Input input(data, size);
  const std::uint8_t choice = input.byte();
  const std::size_t file = choice % 8 % kFiles.size();
  const bool finished = (choice & 8) == 0;
  const bool in_sweep = (choice & 16) != 0 || file == kSweep;
  folder.mend();
  if (in_sweep) {
    folder.put_sweep();
  }
  if (!finished) {
    folder.unfinish();
  }
  folder.put(file, input.rest());
  fuzz::only_errors([&] { report(in_sweep ? folder.sweep() : folder.run(), registry); });
  // Reports read every file, the others some: what does not read the input learns nothing from it.
  if (file == kEvents || file == kSummary || file == kFindings || file == kPartition) {
    fuzz::only_errors([&] {
      const RunEvidence evidence = read_run_evidence(folder.run());
      evidence.csv();
      evidence.json().dump();
    });
  }
  if (file == kEvents || file == kSummary || file == kSweep) {
    fuzz::only_errors([&] { table(folder.run()); });
  }
  if (file == kExperiment) {
    fuzz::only_errors([&] { read_run_experiment(folder.run(), registry); });
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  fuzz::Draw draw(seed);
  fuzz::Input input(data, size);
  const std::uint8_t choice = input.byte();
  std::string text(input.rest());
  if (fuzz::draw_below(draw, 4) == 0 || !fuzz::mutate_json_text(text, draw)) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  return fuzz::hand_back(static_cast<char>(choice) + text, data, size, max_size);
}
