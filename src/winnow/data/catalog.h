// The data sets that Winnow knows by name: where they are looked for, how they are read, and the
// constants that published work feeds them to a network with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "winnow/base/catalog.h"
#include "winnow/base/params.h"
#include "winnow/data/data_options.h"
#include "winnow/data/data_set.h"
#include "winnow/data/server_set.h"

namespace winnow {

// A data set that a program brings itself, with parameters of its own in the [data] table. Its
// images and labels are checked like those of any other set, and the options that cut, normalise
// and augment hold for it, too.
class DataSource {
 public:
  virtual ~DataSource() = default;
  // Declares its own parameters over its members; their names must not be those of DataOptions.
  virtual void declare(Params& /*params*/) {}
  // All samples in their order: train and test, classes, and class_names if there are any. `place`
  // is where the set was found, empty for one that is always there.
  virtual DataSet load(const std::filesystem::path& place) const = 0;
};

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
  clients,
  server,  // what the server of a real federation has; see load_server_set()
  own,     // a DataSource reads or makes it
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
  std::function<std::unique_ptr<DataSource>()> make = {};  // for DataLayout::own
};

// The data sets of a program, in the order `winnow list datasets` shows them.
using DataSets = Catalog<DataSetInfo>;
const DataSets& builtin_data_sets();

// Reads the [data] table. Throws Error(kind experiment) for an unknown name, with a suggestion, and
// for a key or value that neither all sets nor the chosen one have.
void read_data_options(const Json& table, const DataSets& known, DataOptions& options);
// The table with all defaults filled in; read_data_options() reads it back.
Json values(const DataOptions& options);
// The parameters that a set declares itself; none for most.
void visit_own_params(const DataSetInfo& info, const std::function<void(const Params&)>& visit);

// The name of the set whose samples come with the clients that hold them.
inline constexpr const char* kSplitData = "clients";

// How many clients a set has that comes split already; 0: it does not, or it is not there.
std::int64_t clients_in(const DataOptions& options, const DataSets& known);

// Finds, reads and validates a set. Throws Error(kind data) with how to get a set that is missing.
DataSet load(const DataOptions& options, const DataSets& known);

// The same of a set whose layout is `server`, which load() refuses.
ServerSet load_server_set(const DataOptions& options, const DataSets& known);

}  // namespace winnow
