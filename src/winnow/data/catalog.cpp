#include "winnow/data/catalog.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/data/cifar.h"
#include "winnow/data/client_sets.h"
#include "winnow/data/idx.h"
#include "winnow/data/image_files.h"
#include "winnow/data/image_layouts.h"
#include "winnow/data/label_file.h"
#include "winnow/data/locate.h"
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
  const fs::path place = locate_or_throw(info, options);
  check_options(info, place, options);
  Loaded loaded = read(info, place, options);
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
  const fs::path place = locate_or_throw(info, options);
  check_options(info, place, options);
  ServerSet server = read_server_set(
      place, options.class_names, {.layout = options.layout, .float_range = options.float_range});
  DataSet& set = server.set;
  set.name = info.name;
  cut(set.test, options.test_limit);
  set.train = set.test;  // validate() wants some
  prepare(info, options, set);
  set.train = {at::empty({0, set.channels(), set.height(), set.width()}, at::kByte), {}};
  return server;
}

}  // namespace winnow
