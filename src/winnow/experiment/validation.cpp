#include "winnow/experiment/validation.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <thread>

#include "winnow/base/error.h"
#include "winnow/base/random.h"
#include "winnow/data/fit.h"
#include "winnow/data/image_files.h"
#include "winnow/data/image_layouts.h"

namespace winnow {
namespace {

// floor(share * count + 1e-9) (spec: label-noise 0.4).
std::int64_t part_of(std::int64_t count, double share) {
  return static_cast<std::int64_t>(std::floor(static_cast<double>(count) * share + 1e-9));
}

// The samples held back: the last ones of a permutation, of all samples or of each class.
std::vector<std::int64_t> draw_split(const Labels& labels, std::int64_t classes, double share,
                                     bool balanced, std::uint64_t seed) {
  std::vector<std::vector<std::int64_t>> groups(balanced ? static_cast<std::size_t>(classes)
                                                         : std::size_t{1});
  for (std::size_t i = 0; i < labels.size(); ++i) {
    groups[balanced ? static_cast<std::size_t>(labels[i]) : 0].push_back(
        static_cast<std::int64_t>(i));
  }
  Stream stream(seed, "validation");
  std::vector<std::int64_t> held;
  for (std::vector<std::int64_t>& group : groups) {
    stream.shuffle(std::span(group));
    const std::int64_t kept = std::ssize(group) - part_of(std::ssize(group), share);
    held.insert(held.end(), group.begin() + kept, group.end());
  }
  std::ranges::sort(held);
  return held;
}

std::vector<std::int64_t> split(const ValidationOptions& options, std::uint64_t seed,
                                DataSet& data) {
  const Labels& labels = data.train.labels;
  const std::vector<std::int64_t> held =
      draw_split(labels, data.classes, options.share, options.balanced, seed);
  if (held.empty() || held.size() == labels.size()) {
    throw Error(ErrorKind::experiment,
                fmt::format("validation.share = {}: {} of {} samples would be held back",
                            options.share, held.size(), labels.size()));
  }
  at::Tensor index = at::empty({std::ssize(held)}, at::kLong);
  std::ranges::copy(held, index.data_ptr<std::int64_t>());
  data.validation.images = data.train.images.index_select(0, index);
  data.validation.labels.clear();
  for (const std::int64_t sample : held) {
    data.validation.labels.push_back(labels[static_cast<std::size_t>(sample)]);
  }
  std::vector<std::int64_t> everything(labels.size());
  std::iota(everything.begin(), everything.end(), std::int64_t{0});
  std::vector<std::int64_t> left;
  std::ranges::set_difference(everything, held, std::back_inserter(left));
  return left;
}

// The data set's class of every class folder.
std::vector<std::int64_t> match_classes(const std::vector<std::string>& folders,
                                        const DataSet& data, const std::string& path) {
  std::vector<std::int64_t> classes;
  for (const std::string& folder : folders) {
    const auto found = std::ranges::find(data.class_names, folder);
    if (found == data.class_names.end()) {
      break;
    }
    classes.push_back(found - data.class_names.begin());
  }
  if (classes.size() == folders.size()) {
    return classes;
  }
  if (std::ssize(folders) != data.classes) {
    throw Error(ErrorKind::data,
                fmt::format("validation.path = {}: {} class folders, but {} has {} classes", path,
                            folders.size(), data.name, data.classes),
                "name the folders like the classes, or have one per class in their order");
  }
  classes.resize(folders.size());
  std::iota(classes.begin(), classes.end(), std::int64_t{0});
  return classes;
}

void read_folder(const ValidationOptions& options, DataSet& data) {
  if (data.height() != data.width()) {
    throw Error(ErrorKind::data, "validation.source = \"folder\" needs square images");
  }
  if (!std::filesystem::is_directory(options.path)) {
    throw Error(ErrorKind::data,
                fmt::format("validation.path = \"{}\": no such folder", options.path),
                "put it there or into data/, with a folder of images for each class");
  }
  const ImageSplit found = scan_image_folder(options.path, 0);
  std::vector<ImageEntry> entries = found.train;
  entries.insert(entries.end(), found.test.begin(), found.test.end());
  const std::vector<std::int64_t> classes = match_classes(found.class_names, data, options.path);
  for (ImageEntry& entry : entries) {
    entry.label = classes[static_cast<std::size_t>(entry.label)];
  }
  data.validation = decode_images(entries, data.height());
  data.validation.images =
      fit_images(data.validation.images, data.channels(), data.height(), data.width());
}

}  // namespace

Params declare(ValidationOptions& options) {
  Params params;
  params.add("source", options.source, "where the server's validation samples come from")
      .choices({"none", "split", "folder"});
  params
      .add("share", options.share,
           "split: share of the training samples that is set aside for validation")
      .above(0)
      .range(0, 1)
      .source("ClipFL: 5,000 of 50,000; it says 1 to 5 % suffice");
  params.add("balanced", options.balanced, "split: take the same share of every class");
  params.add("path", options.path,
             "folder: a folder with one folder of validation images per class");
  params.add("distortion", options.distortion,
             "distortion that degrades the validation images; empty: none");
  params.add("severity", options.severity, "severity of the distortion of the validation images")
      .range(1, 5);
  return params;
}

void check(const ValidationOptions& options, const Distortions& known) {
  if (options.source == "folder" && options.path.empty()) {
    throw Error(ErrorKind::experiment, "validation.source = \"folder\" needs validation.path",
                "name a folder that has one folder of images per class");
  }
  if (options.source != "folder" && !options.path.empty()) {
    throw Error(ErrorKind::experiment,
                fmt::format("validation.path is only used with source = \"folder\", not \"{}\"",
                            options.source));
  }
  if (!options.distortion.empty()) {
    find_distortion(options.distortion, known);
  }
}

std::vector<std::int64_t> make_validation(const ValidationOptions& options, std::uint64_t seed,
                                          const Distortions& known, DataSet& data) {
  std::vector<std::int64_t> left(data.train.labels.size());
  std::iota(left.begin(), left.end(), std::int64_t{0});
  if (options.source == "none") {
    return left;
  }
  if (options.source == "split") {
    left = split(options, seed, data);
  } else {
    read_folder(options, data);
  }
  if (!options.distortion.empty()) {
    const DistortionInfo& distortion = find_distortion(options.distortion, known);
    std::vector<DistortionJob> jobs;
    for (std::int64_t sample = 0; sample < data.validation.size(); ++sample) {
      jobs.push_back({sample, &distortion, static_cast<int>(options.severity)});
    }
    distort_images(data.validation.images, jobs, stream_key(seed, "validation distortion", {}),
                   static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  }
  return left;
}

}  // namespace winnow
