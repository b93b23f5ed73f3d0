// The data sets that Winnow knows by name: where they are looked for, how they are read, and the
// constants that published work feeds them to a network with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/data/data_set.h"

namespace winnow {

// The [data] table of an experiment.
struct DataOptions {
  std::string name = "fashion-mnist";
  std::string path;
  std::string list_test;
  std::string given_labels;
  std::int64_t image_size = 0;
  std::int64_t train_limit = 0;
  std::int64_t test_limit = 0;
  std::vector<double> mean;
  std::vector<double> std;
  std::string augment = "auto";
  // The synthetic set.
  std::int64_t samples = 10'000;
  std::int64_t test_samples = 2'000;
  std::int64_t classes = 10;
  std::int64_t channels = 1;
  std::int64_t size = 28;
  double difficulty = 0.3;
  std::uint64_t seed = 1;
};

Params declare(DataOptions& options);

// How the files of a set lie on the disk.
enum class DataLayout {
  idx,
  cifar10,
  cifar100,
  npz,
  image_folder,
  image_list,
  clothing1m,
  webvision,
  synthetic,
};

struct DataSetInfo {
  std::string name;
  std::string summary;
  std::string how_to_get;
  DataLayout layout = DataLayout::image_folder;
  std::vector<std::string> usual = {};    // file or folder names below a data folder, best first
  std::vector<std::string> markers = {};  // one of these must lie in the folder; none: it exists
  std::vector<std::string> system = {};   // absolute folders where packages put it
  Normalisation normalisation = {{0.5}, {0.5}};  // a single value serves every channel
  bool augment = false;
  std::int64_t classes = 0;     // 0: the files tell
  std::int64_t image_size = 0;  // the square that image files are brought to; 0: kept as they are
  std::vector<std::string> class_names = {};
  bool unchecked = false;  // its labels are as they were found: which ones are right is not known
};

// All sets, in the order `winnow list datasets` shows them.
const std::vector<DataSetInfo>& data_sets();
// Throws Error(kind experiment) with a suggestion for an unknown name.
const DataSetInfo& find_data_set(const std::string& name);

// The folders below which data sets are looked for: $WINNOW_DATA, ./data and ~/.cache/winnow.
std::vector<std::filesystem::path> data_folders();

// Where a set is looked for and whether it is there. A generated set is always there and has no
// place; a set without a usual place is only looked for at the given path.
struct DataPlace {
  std::vector<std::filesystem::path> looked;
  std::filesystem::path found;
  bool there = false;
};

// With `path` in the options: that path, and the usual names below it. Without: the usual names
// below the data_folders(), then the places of packages.
DataPlace locate(const DataSetInfo& info, const DataOptions& options);

// Finds, reads and validates a set. Throws Error(kind data) with how to get a set that is missing.
DataSet load(const DataOptions& options);

}  // namespace winnow
