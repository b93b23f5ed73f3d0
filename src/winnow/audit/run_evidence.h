// What a finished run's method found out about its clients, as a table beside the truth.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "winnow/base/json.h"

namespace winnow {

// A row for each client. Columns that the run says nothing of are left out.
struct RunEvidence {
  std::string method;
  std::vector<std::string> columns;            // "client", "samples", "flagged", "lid", ...
  std::vector<std::vector<std::string>> rows;  // texts; empty where nothing is known
  std::vector<std::string> notes;              // ROC areas and correlations of the scores

  // The rows as people read them: shares in percent, and words where there is too little to say.
  std::vector<std::vector<std::string>> shown() const;
  std::string csv() const;
  Json json() const;
};

// Whether a folder is a run directory.
bool is_run_directory(const std::filesystem::path& folder);

// Reads findings.json, partition.json and, where members held the data, members.json of a run
// directory, which may come from anybody. Throws Error(kind run) where they do not hold together.
RunEvidence read_run_evidence(const std::filesystem::path& directory);

}  // namespace winnow
