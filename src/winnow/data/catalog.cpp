#include "winnow/data/catalog.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/data/cifar.h"
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
    const bool is_file = info.layout == DataLayout::npz || is_image_layout(info.layout);
    return is_file && is_there(place);
  }
  if (info.layout == DataLayout::npz || info.layout == DataLayout::image_list) {
    return false;
  }
  return info.markers.empty() || std::ranges::any_of(info.markers, [&](const std::string& marker) {
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
  const std::string marker = info.markers.empty() ? "" : info.markers.front() + " in ";
  throw Error(ErrorKind::data,
              fmt::format("data set '{}' not found: looked for {}{}", info.name, marker,
                          join(looked, ", ")),
              info.how_to_get);
}

ImageSplit scan(const DataSetInfo& info, const fs::path& place, const DataOptions& options) {
  if (!fs::is_directory(place)) {
    return scan_image_list(place, expand_home(options.list_test), options.seed);
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
  loaded.set.test = decode(split.test, options.test_limit);
  loaded.set.test_drawn = split.test_drawn;
  loaded.set.class_names = split.class_names;
  loaded.set.classes = std::ssize(split.class_names);
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
      loaded.set = read_npz_set(place, info.classes);
      break;
    case DataLayout::synthetic:
      loaded.set = generate(options);
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
  params.add("name", options.name, "data set; `winnow list datasets` names them all");
  params.add("path", options.path, "where the data set lies, if not in a usual place");
  params.add("list_test", options.list_test,
             "list of test images, where data.path is a list (empty: split 80/20)");
  params.add("given_labels", options.given_labels,
             "file (.npy, .csv, .txt) of the labels that clients see in place of the true ones");
  params
      .add("image_size", options.image_size,
           "side that image files are resized to (0: the set's usual one)")
      .range(0, 4096);
  params
      .add("train_limit", options.train_limit,
           "use only the first N training samples, in the set's order (0: all)")
      .at_least(0);
  params.add("test_limit", options.test_limit, "use only the first N test samples (0: all)")
      .at_least(0);
  params
      .add("mean", options.mean,
           "mean of each channel that images are normalised by; empty: the set's own")
      .range(0, 1)
      .source("spec: label-noise 0.5");
  params.add("std", options.std, "standard deviation of each channel; empty: the set's own")
      .above(0)
      .source("spec: label-noise 0.5");
  params.add("augment", options.augment, "padded random crop and flip in training")
      .choices({"auto", "on", "off"});
  params.add("samples", options.samples, "synthetic: training samples").range(1, 10'000'000);
  params.add("test_samples", options.test_samples, "synthetic: test samples").range(1, 10'000'000);
  params.add("classes", options.classes, "synthetic: classes").range(2, kMostClasses);
  params.add("channels", options.channels, "synthetic: channels").range(1, 16);
  params.add("size", options.size, "synthetic: height and width").range(4, 512);
  params.add("difficulty", options.difficulty, "synthetic: 0 trivial .. 1 hard").range(0, 1);
  params.add("seed", options.seed, "seed of the synthetic set and of 80/20 splits of image files");
  return params;
}

const DataSetInfo& find_data_set(const std::string& name) {
  std::vector<std::string> known;
  for (const DataSetInfo& info : data_sets()) {
    if (info.name == name) {
      return info;
    }
    known.push_back(info.name);
  }
  throw Error(ErrorKind::experiment, fmt::format("unknown data set '{}'", name),
              suggestion(name, known));
}

DataPlace locate(const DataSetInfo& info, const DataOptions& options) {
  DataPlace place;
  if (info.layout == DataLayout::synthetic) {
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

DataSet load(const DataOptions& options) {
  const DataSetInfo& info = find_data_set(options.name);
  const DataPlace place = locate(info, options);
  if (!place.there) {
    report_missing(info, place);
  }
  Loaded loaded = read(info, place.found, options);
  DataSet& set = loaded.set;
  set.name = info.name;
  if (std::ssize(info.class_names) == set.classes) {
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
  set.normalisation.mean =
      per_channel("mean", options.mean, info.normalisation.mean, set.channels());
  set.normalisation.std = per_channel("std", options.std, info.normalisation.std, set.channels());
  set.augment = options.augment == "auto" ? info.augment : options.augment == "on";
  validate(set);
  return std::move(loaded.set);
}

}  // namespace winnow
