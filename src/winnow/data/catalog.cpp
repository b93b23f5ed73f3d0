#include "winnow/data/catalog.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/data/cifar.h"
#include "winnow/data/client_sets.h"
#include "winnow/data/idx.h"
#include "winnow/data/image_files.h"
#include "winnow/data/image_layouts.h"
#include "winnow/data/label_file.h"
#include "winnow/data/npz.h"
#include "winnow/data/synthetic.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

// A set as read, and how many training samples its files hold before any limit.
struct Loaded {
  DataSet set;
  std::int64_t train_total = 0;
  bool named = false;  // its class names are not mere numbers
};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets variables
  return value == nullptr ? "" : value;
}

fs::path expand_home(const std::string& path) {
  const std::string home = environment("HOME");
  return path.starts_with("~/") && !home.empty() ? fs::path(home) / path.substr(2) : fs::path(path);
}

std::vector<fs::path> places(const DataSetInfo& info, const DataOptions& options) {
  std::vector<fs::path> places;
  std::vector<fs::path> roots;
  if (!options.path.empty()) {
    places.push_back(expand_home(options.path));
    roots = places;
  } else {
    roots = data_folders();
  }
  for (const fs::path& root : roots) {
    for (const std::string& usual : info.usual) {
      places.push_back(root / usual);
    }
  }
  if (options.path.empty()) {
    places.insert(places.end(), info.system.begin(), info.system.end());
  }
  return places;
}

bool is_image_layout(DataLayout layout) {
  return layout == DataLayout::image_folder || layout == DataLayout::image_list ||
         layout == DataLayout::clothing1m || layout == DataLayout::webvision;
}

// A list file may stand for every set of image files; every other set has its own marks.
bool holds(const DataSetInfo& info, const fs::path& place) {
  std::error_code ignored;
  if (!fs::is_directory(place, ignored)) {
    const bool is_file = info.layout == DataLayout::npz || info.layout == DataLayout::clients ||
                         info.layout == DataLayout::server || is_image_layout(info.layout);
    return is_file && is_there(place);
  }
  if (info.layout == DataLayout::image_list) {
    return false;
  }
  const bool any_folder =
      info.markers.empty() && info.layout != DataLayout::npz && info.layout != DataLayout::server;
  return any_folder || std::ranges::any_of(info.markers, [&](const std::string& marker) {
           return is_there(place / marker);
         });
}

[[noreturn]] void report_missing(const DataSetInfo& info, const DataPlace& place) {
  if (place.looked.empty()) {
    throw Error(ErrorKind::data, fmt::format("data set '{}' needs data.path", info.name),
                info.how_to_get);
  }
  std::vector<std::string> looked;
  for (const fs::path& path : place.looked) {
    looked.push_back(path.string());
  }
  const bool in_folder = !info.markers.empty() && info.layout != DataLayout::npz;
  const std::string marker = in_folder ? info.markers.front() + " in " : "";
  throw Error(ErrorKind::data,
              fmt::format("data set '{}' not found: looked for {}{}", info.name, marker,
                          join(looked, ", ")),
              info.how_to_get);
}

ImageSplit scan(const DataSetInfo& info, const fs::path& place, const DataOptions& options) {
  if (!fs::is_directory(place)) {
    return scan_image_list(place, expand_home(options.list_test), options.seed,
                           options.class_names);
  }
  switch (info.layout) {
    case DataLayout::clothing1m:
      return scan_clothing1m(place);
    case DataLayout::webvision:
      return scan_webvision(place);
    default:
      return scan_image_folder(place, options.seed);
  }
}

// Limits are applied before anything is decoded: a large set need not fit in memory whole.
Loaded load_images(const DataSetInfo& info, const fs::path& place, const DataOptions& options) {
  const ImageSplit split = scan(info, place, options);
  const std::int64_t side = options.image_size > 0 ? options.image_size : info.image_size;
  const auto decode = [&](const std::vector<ImageEntry>& entries, std::int64_t limit) {
    const std::size_t count =
        limit > 0 ? std::min(entries.size(), static_cast<std::size_t>(limit)) : entries.size();
    return decode_images(std::span(entries).first(count), side);
  };
  Loaded loaded;
  loaded.train_total = std::ssize(split.train);
  loaded.set.train = decode(split.train, options.train_limit);
  const fs::path base = fs::is_directory(place) ? place : place.parent_path();
  for (std::int64_t i = 0; i < loaded.set.train.size(); ++i) {
    const fs::path& file = split.train[static_cast<std::size_t>(i)].file;
    loaded.set.names.push_back(file.lexically_relative(base).generic_string());
  }
  loaded.set.test = decode(split.test, options.test_limit);
  loaded.set.test_drawn = split.test_drawn;
  loaded.set.class_names = split.class_names;
  loaded.set.classes = std::ssize(split.class_names);
  loaded.set.unused_columns = split.unused_columns;
  loaded.named = split.named;
  return loaded;
}

DataSet generate(const DataOptions& options) {
  return make_synthetic({.samples = options.samples,
                         .test_samples = options.test_samples,
                         .classes = options.classes,
                         .channels = options.channels,
                         .size = options.size,
                         .difficulty = options.difficulty,
                         .seed = options.seed});
}

DataSet read_arrays(const DataSetInfo& info, const fs::path& place, const DataOptions& options) {
  const std::int64_t classes =
      options.class_names.empty() ? info.classes : std::ssize(options.class_names);
  DataSet set =
      read_npz_set(place, classes, {.layout = options.layout, .float_range = options.float_range});
  if (!options.class_names.empty()) {
    set.class_names = options.class_names;
  }
  return set;
}

DataSet ask_source(const DataSetInfo& info, const fs::path& place, const DataOptions& options) {
  if (!info.make) {
    throw Error(ErrorKind::internal, fmt::format("data set '{}' has no source", info.name));
  }
  const std::unique_ptr<DataSource> source = info.make();
  Params params;
  source->declare(params);
  params.read(options.own, "data");
  return source->load(place);
}

std::vector<std::string> numbers_up_to(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t number = 0; number < std::min(count, kMostClasses); ++number) {
    names.push_back(std::to_string(number));
  }
  return names;
}

ClientSetOptions client_options(const DataSetInfo& info, const DataOptions& options) {
  return {.test_from = options.test_from,
          .test_share = options.test_share,
          .test_path = expand_home(options.test_path),
          .class_names = options.class_names,
          .image_size = options.image_size > 0 ? options.image_size : info.image_size,
          .arrays = {.layout = options.layout, .float_range = options.float_range},
          .seed = options.seed};
}

Loaded read(const DataSetInfo& info, const fs::path& place, const DataOptions& options) {
  Loaded loaded;
  switch (info.layout) {
    case DataLayout::idx:
      loaded.set = read_idx_folder(place, info.classes);
      break;
    case DataLayout::cifar10:
      loaded.set = read_cifar10(place);
      break;
    case DataLayout::cifar100:
      loaded.set = read_cifar100(place);
      break;
    case DataLayout::npz:
      loaded.set = read_arrays(info, place, options);
      break;
    case DataLayout::synthetic:
      loaded.set = generate(options);
      break;
    case DataLayout::own:
      loaded.set = ask_source(info, place, options);
      loaded.named = !loaded.set.class_names.empty();
      if (!loaded.named) {
        loaded.set.class_names = numbers_up_to(loaded.set.classes);
      }
      break;
    case DataLayout::clients:
      loaded.set = read_client_set(place, client_options(info, options));
      break;
    default:
      return load_images(info, place, options);
  }
  loaded.train_total = loaded.set.train.size();
  return loaded;
}

bool has_array(const NpzFile& file, const std::string& name) {
  const std::vector<std::string> names = file.names();
  return std::ranges::find(names, name) != names.end();
}

// The first `limit` samples; 0 keeps all.
void cut(Samples& samples, std::int64_t limit) {
  if (limit > 0 && limit < samples.size()) {
    samples.images = samples.images.narrow(0, 0, limit).clone();
    samples.labels.resize(static_cast<std::size_t>(limit));
  }
}

[[noreturn]] void report_unused(std::string_view key, const DataSetInfo& info,
                                const std::string& serves) {
  throw Error(ErrorKind::experiment,
              fmt::format("data.{}: data set '{}' does not use it", key, info.name),
              fmt::format("it is for {}; remove it", serves));
}

// Options that would change what is read, where nothing reads them.
void check_options(const DataSetInfo& info, const fs::path& place, const DataOptions& options) {
  const bool listed = is_image_layout(info.layout) && !fs::is_directory(place);
  const bool split = info.layout == DataLayout::clients;
  const bool server = info.layout == DataLayout::server;
  const bool own_arrays = server || (info.layout == DataLayout::npz && info.classes == 0);
  const std::vector<std::string>& names = options.class_names;
  if (!names.empty() && !listed && !own_arrays && !(split && !fs::is_directory(place))) {
    report_unused("class_names", info, "image lists and arrays of your own");
  }
  if (options.layout != "auto" && info.layout != DataLayout::npz && !split && !server) {
    report_unused("layout", info, "arrays");
  }
  if (options.float_range != "auto" && info.layout != DataLayout::npz && !split && !server) {
    report_unused("float_range", info, "arrays");
  }
  if (options.test_from != "auto" && !split) {
    report_unused("test_from", info, "data that is split among clients");
  }
  if (!options.test_path.empty() && !split) {
    report_unused("test_path", info, "data that is split among clients");
  }
  if (std::ssize(names) > kMostClasses) {
    throw Error(
        ErrorKind::experiment,
        fmt::format("data.class_names: {} names, expected at most {}", names.size(), kMostClasses));
  }
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (name.empty() || !seen.insert(name).second) {
      throw Error(ErrorKind::experiment,
                  fmt::format("data.class_names: '{}' is {}", name,
                              name.empty() ? "no name" : "there more than once"),
                  "expected the name of every class once, in order");
    }
  }
}

// One value per channel from what the user gave or else from the set's own constants.
std::vector<double> per_channel(std::string_view key, const std::vector<double>& given,
                                const std::vector<double>& own, std::int64_t channels) {
  std::vector<double> values = given.empty() ? own : given;
  const auto count = static_cast<std::size_t>(channels);
  if (values.size() == 1) {
    values.resize(count, values.front());
  }
  if (values.size() != count) {
    throw Error(given.empty() ? ErrorKind::data : ErrorKind::experiment,
                fmt::format("data.{}: {} values, but the images have {} channels", key,
                            values.size(), channels),
                "give one value, or one for each channel");
  }
  return values;
}

}  // namespace

std::vector<fs::path> data_folders() {
  std::vector<fs::path> folders;
  if (const std::string named = environment("WINNOW_DATA"); !named.empty()) {
    folders.emplace_back(named);
  }
  folders.emplace_back("data");
  if (const std::string home = environment("HOME"); !home.empty()) {
    folders.push_back(fs::path(home) / ".cache" / "winnow");
  }
  return folders;
}

Params declare(DataOptions& options) {
  Params params;
  params.add("name", options.name, "name of the data set, one of `winnow list datasets`");
  params.add("path", options.path,
             "folder or file of the data set; empty: look in the usual places");
  params.add("list_test", options.list_test,
             "list of test images, if data.path is a list; empty: the list is split 80/20");
  params.add(
      "class_names", options.class_names,
      "your own lists and arrays: class names in order; empty: the names that a list uses, sorted");
  params
      .add("layout", options.layout,
           "arrays: whether channels come last (nhwc) or first (nchw); auto: decided by the shape")
      .choices({"auto", "nhwc", "nchw"});
  params
      .add("float_range", options.float_range,
           "arrays: value range of images stored as floats; auto: decided by the largest value")
      .choices({"auto", "0..1", "0..255"});
  params.add("given_labels", options.given_labels,
             "file (.npy, .csv or .txt) with the labels that clients see instead of the true ones");
  params.add("relabel", options.relabel,
             "relabel.csv written by `winnow audit`: clients see its new labels in the rows marked "
             "as accepted");
  params
      .add("test_from", options.test_from,
           "clients: where test samples come from: data.test_path or the archive (own), a share of "
           "each client's samples (share), or clients that are held out (clients); auto: own if "
           "there are any, otherwise share")
      .choices({"auto", "own", "share", "clients", "none"});
  params
      .add("test_share", options.test_share,
           "clients: share of each client's samples, or of the clients, that is used for testing")
      .above(0)
      .range(0, 0.9);
  params.add("test_path", options.test_path,
             "clients: folder CLASS/* or list of test images; empty: none");
  params
      .add("image_size", options.image_size,
           "width and height that image files are resized to; 0: the data set's own")
      .range(0, 4096);
  params
      .add("train_limit", options.train_limit,
           "use only the first N training samples, in the data set's order; 0: all")
      .at_least(0);
  params.add("test_limit", options.test_limit, "use only the first N test samples; 0: all")
      .at_least(0);
  params
      .add("mean", options.mean,
           "mean of each channel, for normalisation; empty: the data set's own")
      .range(0, 1)
      .source("spec: label-noise 0.5");
  params
      .add("std", options.std,
           "standard deviation of each channel, for normalisation; empty: the data set's own")
      .above(0)
      .source("spec: label-noise 0.5");
  params
      .add("augment", options.augment,
           "random crops and flips in training; auto: as usual for the data set")
      .choices({"auto", "on", "off"});
  params
      .add("crop", options.crop,
           "side of the random crop, which is taken inside the image; images that are not "
           "augmented are scaled to it; 0: crops are as large as the image and taken from the "
           "image padded by 4 pixels")
      .range(0, 4096)
      .source("FedCorr takes 224 of 256 on Clothing1M");
  params.add("samples", options.samples, "synthetic: number of training samples")
      .range(1, 10'000'000);
  params.add("test_samples", options.test_samples, "synthetic: number of test samples")
      .range(1, 10'000'000);
  params.add("classes", options.classes, "synthetic: number of classes").range(2, kMostClasses);
  params.add("channels", options.channels, "synthetic: number of channels").range(1, 16);
  params.add("size", options.size, "synthetic: height and width of the images").range(4, 512);
  params
      .add("difficulty", options.difficulty,
           "synthetic: how hard the classes are to tell apart, from 0 (trivial) to 1 (hard)")
      .range(0, 1);
  params.add("seed", options.seed,
             "seed of the synthetic data set and of the 80/20 split of image files");
  return params;
}

void read_data_options(const Json& table, const DataSets& known, DataOptions& options) {
  Params params = declare(options);
  const auto name = table.is_object() ? table.find("name") : table.end();
  if (table.is_object() && name != table.end() && name->is_string()) {
    options.name = name->get<std::string>();
  }
  const DataSetInfo& info = known.find(options.name);
  const std::unique_ptr<DataSource> source = info.make ? info.make() : nullptr;
  Params own;
  if (source != nullptr) {
    source->declare(own);
  }
  std::vector<std::string> own_keys;
  std::ranges::transform(own.all(), std::back_inserter(own_keys), &Param::name);
  params.read(table, "data", own_keys);
  Json given = Json::object();
  for (const std::string& key : own_keys) {
    if (params.find(key) != nullptr) {
      throw Error(
          ErrorKind::internal,
          fmt::format("data set '{}' declares '{}', which all data sets have", options.name, key));
    }
    if (const auto value = table.find(key); value != table.end()) {
      given[key] = *value;
    }
  }
  own.read(given, "data");
  options.own = own.values();
}

Json values(const DataOptions& options) {
  DataOptions copy = options;  // Params want targets they may write
  Json values = declare(copy).values();
  values.update(options.own);
  return values;
}

void visit_own_params(const DataSetInfo& info, const std::function<void(const Params&)>& visit) {
  const std::unique_ptr<DataSource> source = info.make ? info.make() : nullptr;
  Params params;
  if (source != nullptr) {
    source->declare(params);
  }
  visit(params);
}

DataPlace locate(const DataSetInfo& info, const DataOptions& options) {
  DataPlace place;
  const bool made = info.layout == DataLayout::own && info.usual.empty() && info.system.empty();
  if (info.layout == DataLayout::synthetic || (made && options.path.empty())) {
    place.there = true;
    return place;
  }
  place.looked = places(info, options);
  const auto found = std::ranges::find_if(
      place.looked, [&](const fs::path& candidate) { return holds(info, candidate); });
  if (found != place.looked.end()) {
    place.found = *found;
    place.there = true;
  }
  return place;
}

// Images are moved by whole pixels and both sides alike, and a GPU keeps moves in bytes.
void check_crop(std::int64_t crop, const DataSet& set) {
  constexpr std::int64_t kWidest = 254;
  const std::int64_t side = set.height();
  const std::int64_t rest = side - crop;
  if (crop > 0 && (side != set.width() || rest < 0 || rest % 2 != 0 || rest > kWidest)) {
    throw Error(ErrorKind::experiment,
                fmt::format("data.crop = {}: expected a square inside the images, which are {}x{}, "
                            "smaller by an even number up to {}",
                            crop, side, set.width(), kWidest),
                "data.image_size says what image files are resized to");
  }
}

namespace {

// How the images are fed to networks, and whether everything fits.
void prepare(const DataSetInfo& info, const DataOptions& options, DataSet& set) {
  set.normalisation.mean =
      per_channel("mean", options.mean, info.normalisation.mean, set.channels());
  set.normalisation.std = per_channel("std", options.std, info.normalisation.std, set.channels());
  set.augment = options.augment == "auto" ? info.augment : options.augment == "on";
  check_crop(options.crop, set);
  set.crop = options.crop;
  validate(set);
}

// The names of the classes in an archive; none where it has no such array.
std::vector<std::string> class_names_in(const NpzFile& file) {
  if (!has_array(file, "class_names")) {
    return {};
  }
  const NpyArray array = file.array("class_names");
  if (array.shape().size() != 1 || array.shape()[0] < 1 || array.shape()[0] > kMostClasses) {
    throw Error(ErrorKind::data, fmt::format("{}: shape {}, expected the names of 1 to {} classes",
                                             array.name(), array.shape_text(), kMostClasses));
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < array.size(); ++i) {
    names.push_back(array.text(i));
  }
  return names;
}

void check_same_shape(const NpzFile& file, const std::string& name, const at::Tensor& images,
                      const at::Tensor& like) {
  if (images.sizes().slice(1) != like.sizes().slice(1)) {
    throw Error(ErrorKind::data,
                fmt::format("{} are {}x{}x{}, but test_images {}x{}x{}", file.array(name).name(),
                            images.size(1), images.size(2), images.size(3), like.size(1),
                            like.size(2), like.size(3)));
  }
}

ServerSet read_server_arrays(const fs::path& place, const DataOptions& options) {
  const NpzFile file(place);
  const ArrayOptions arrays{.layout = options.layout, .float_range = options.float_range};
  ServerSet server;
  DataSet& set = server.set;
  set.class_names = options.class_names.empty() ? class_names_in(file) : options.class_names;
  const auto samples = [&](const std::string& part) {
    Samples read;
    read.images = read_array_images(file.array(part + "_images"), arrays);
    read.labels = read_array_labels(file.array(part + "_labels"), read.images.size(0),
                                    std::ssize(set.class_names));
    return read;
  };
  set.test = samples("test");
  if (has_array(file, "validation_images")) {
    set.validation = samples("validation");
    check_same_shape(file, "validation_images", set.validation.images, set.test.images);
  }
  if (has_array(file, "public_images")) {
    server.public_images = read_array_images(file.array("public_images"), arrays);
    check_same_shape(file, "public_images", server.public_images, set.test.images);
  }
  if (set.class_names.empty()) {
    std::int64_t most = std::ranges::max(set.test.labels);
    for (const std::int64_t label : set.validation.labels) {
      most = std::max(most, label);
    }
    set.class_names = numbers_up_to(most + 1);
  }
  set.classes = std::ssize(set.class_names);
  return server;
}

}  // namespace

std::int64_t clients_in(const DataOptions& options, const DataSets& known) {
  const DataSetInfo& info = known.find(options.name);
  const DataPlace place = locate(info, options);
  if (info.layout != DataLayout::clients || !place.there) {
    return 0;
  }
  return count_clients_of(place.found, client_options(info, options));
}

DataSet load(const DataOptions& options, const DataSets& known) {
  const DataSetInfo& info = known.find(options.name);
  if (info.layout == DataLayout::server) {
    throw Error(ErrorKind::experiment,
                fmt::format("data.name = \"{}\": the samples are those of the members of a "
                            "federation",
                            info.name),
                "serve the file with: winnow serve FILE");
  }
  const DataPlace place = locate(info, options);
  if (!place.there) {
    report_missing(info, place);
  }
  check_options(info, place.found, options);
  Loaded loaded = read(info, place.found, options);
  DataSet& set = loaded.set;
  set.name = info.name;
  if (!loaded.named && std::ssize(info.class_names) == set.classes) {
    set.class_names = info.class_names;
  }
  if (!options.given_labels.empty()) {
    set.given = read_label_file(expand_home(options.given_labels), loaded.train_total, set.classes);
  }
  cut(set.train, options.train_limit);
  cut(set.test, options.test_limit);
  if (!set.given.empty()) {
    set.given.resize(set.train.labels.size());
  }
  if (!set.owners.empty()) {
    set.owners.resize(set.train.labels.size());
  }
  if (!set.names.empty()) {
    set.names.resize(set.train.labels.size());
  }
  prepare(info, options, set);
  return std::move(loaded.set);
}

ServerSet load_server_set(const DataOptions& options, const DataSets& known) {
  const DataSetInfo& info = known.find(options.name);
  if (info.layout != DataLayout::server) {
    throw Error(ErrorKind::experiment,
                fmt::format("data.name = \"{}\": a server has data.name = \"server\"", info.name),
                "'winnow deal' makes such a file from an experiment");
  }
  const DataPlace place = locate(info, options);
  if (!place.there) {
    report_missing(info, place);
  }
  check_options(info, place.found, options);
  ServerSet server = read_server_arrays(place.found, options);
  DataSet& set = server.set;
  set.name = info.name;
  cut(set.test, options.test_limit);
  set.train = set.test;  // validate() wants some
  prepare(info, options, set);
  set.train = {at::empty({0, set.channels(), set.height(), set.width()}, at::kByte), {}};
  return server;
}

}  // namespace winnow
