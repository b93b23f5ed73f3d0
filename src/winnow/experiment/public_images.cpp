#include "winnow/experiment/public_images.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/random.h"
#include "winnow/data/fit.h"
#include "winnow/data/image_files.h"
#include "winnow/data/image_layouts.h"

namespace winnow {
namespace {

// Which of `available` images are taken, ascending; `spare` must remain.
std::vector<std::int64_t> draw(const PublicOptions& options, std::uint64_t seed,
                               std::int64_t available, std::int64_t spare) {
  if (options.size + spare > available) {
    throw Error(
        ErrorKind::data,
        fmt::format("public.size = {}: only {} images are available", options.size, available),
        spare > 0 ? "leave some to the clients" : "");
  }
  std::vector<std::int64_t> taken = Stream(seed, "public").sample(available, options.size);
  std::ranges::sort(taken);
  return taken;
}

at::Tensor select(const at::Tensor& images, const std::vector<std::int64_t>& places) {
  return images.index_select(0, at::tensor(places, at::kLong));
}

at::Tensor of_split(const PublicOptions& options, std::uint64_t seed, const DataSet& data,
                    std::vector<std::int64_t>& left) {
  std::vector<std::int64_t> taken = draw(options, seed, std::ssize(left), /*spare=*/1);
  for (std::int64_t& place : taken) {
    place = left[static_cast<std::size_t>(place)];
  }
  std::vector<std::int64_t> rest;
  std::ranges::set_difference(left, taken, std::back_inserter(rest));
  left = std::move(rest);
  return select(data.train.images, taken);
}

at::Tensor of_data_set(const PublicOptions& options, std::uint64_t seed, const DataSets& known,
                       const DataSet& data) {
  DataOptions other;
  read_data_options({{"name", options.name}}, known, other);
  other.path = options.path;
  other.image_size = data.height();
  const at::Tensor images = load(other, known).train.images;
  return select(images, draw(options, seed, images.size(0), 0));
}

at::Tensor of_folder(const PublicOptions& options, std::uint64_t seed, const DataSet& data) {
  const ImageSplit found = scan_image_folder(options.path, 0);
  std::vector<ImageEntry> entries = found.train;
  entries.insert(entries.end(), found.test.begin(), found.test.end());
  std::ranges::sort(entries, {}, &ImageEntry::file);
  std::vector<ImageEntry> taken;
  for (const std::int64_t place : draw(options, seed, std::ssize(entries), 0)) {
    taken.push_back(entries[static_cast<std::size_t>(place)]);
  }
  return decode_images(taken, data.height()).images;
}

}  // namespace

Params declare(PublicOptions& options) {
  Params params;
  params
      .add("source", options.source,
           "where the public images come from, which all clients have without labels")
      .choices({"none", "split", "data", "folder"});
  params.add("name", options.name, "data: name of the data set whose training images are public");
  params.add("path", options.path,
             "folder: a folder that has folders of images; data: folder or file of the data set");
  params.add("size", options.size, "number of public images, drawn at random with the seed")
      .range(1, 1e7)
      .source("RHFL: 5,000 of CIFAR-100");
  return params;
}

void check(const PublicOptions& options, const DataSets& known) {
  if (options.source == "data") {
    if (options.name.empty()) {
      throw Error(ErrorKind::experiment, "public.source = \"data\" needs public.name",
                  "name a data set of `winnow list datasets`");
    }
    known.find(options.name);
  } else if (!options.name.empty()) {
    throw Error(
        ErrorKind::experiment,
        fmt::format("public.name is only used with source = \"data\", not \"{}\"", options.source));
  }
  if (options.source == "folder" && options.path.empty()) {
    throw Error(ErrorKind::experiment, "public.source = \"folder\" needs public.path",
                "name a folder that has folders of images");
  }
  if (options.source != "folder" && options.source != "data" && !options.path.empty()) {
    throw Error(
        ErrorKind::experiment,
        fmt::format("public.path is only used with source = \"folder\" or \"data\", not \"{}\"",
                    options.source));
  }
}

at::Tensor take_public_images(const PublicOptions& options, std::uint64_t seed,
                              const DataSets& known, const DataSet& data,
                              std::vector<std::int64_t>& left) {
  if (options.source == "none") {
    return {};
  }
  if (options.source == "split") {
    return of_split(options, seed, data, left);
  }
  const at::Tensor images = options.source == "data" ? of_data_set(options, seed, known, data)
                                                     : of_folder(options, seed, data);
  try {
    return fit_images(images, data.channels(), data.height(), data.width());
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("[public] for {}: {}", data.name, error.what()),
                error.hint());
  }
}

}  // namespace winnow
