// Every picture of a report as a file of its own.
#pragma once

#include <string>
#include <vector>

#include "winnow/base/json.h"

namespace winnow {

struct ReportFile {
  std::string name;  // a path below the folder that is written, one folder for every run
  std::string content;
};

// The pictures that the page draws, as SVG, and its curves as curves.csv too. `report` is what
// ReportReader::read() gives (run/report_data.h), with or without images. A run has the pictures
// that it has data for. Throws Error(kind run) that names the run and the entry where a value is
// not what a report holds.
std::vector<ReportFile> report_files(const Json& report);

}  // namespace winnow
