// Where data sets are looked for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "winnow/data/catalog.h"

namespace winnow {

// "~/..." is below the home folder, where there is one.
std::filesystem::path expand_home(const std::string& path);

// The folders below which data sets are looked for: $WINNOW_DATA, ./data and ~/.cache/winnow.
std::vector<std::filesystem::path> data_folders();

// Where a set is looked for and whether it is there. A generated set, and one of a program's own
// without usual places, is always there and has no place; any other set without a usual place is
// only looked for at the given path.
struct DataPlace {
  std::vector<std::filesystem::path> looked;
  std::filesystem::path found;
  bool there = false;
};

// With `path` in the options: that path, and the usual names below it. Without: the usual names
// below the data_folders(), then the places of packages.
DataPlace locate(const DataSetInfo& info, const DataOptions& options);

// The same, of a set that has to be there: throws Error(kind data) with how to get it. Empty for
// one that has no place.
std::filesystem::path locate_or_throw(const DataSetInfo& info, const DataOptions& options);

// Whether it is image files, which a list may stand for.
bool is_image_layout(DataLayout layout);

}  // namespace winnow
