#include "winnow/data/server_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"

namespace winnow {
namespace {

bool has_array(const NpzFile& file, const std::string& name) {
  const std::vector<std::string> names = file.names();
  return std::ranges::find(names, name) != names.end();
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

}  // namespace

std::vector<std::string> numbers_up_to(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t number = 0; number < std::min(count, kMostClasses); ++number) {
    names.push_back(std::to_string(number));
  }
  return names;
}

ServerSet read_server_set(const std::filesystem::path& place,
                          const std::vector<std::string>& class_names, const ArrayOptions& arrays) {
  const NpzFile file(place);
  ServerSet server;
  DataSet& set = server.set;
  set.class_names = class_names.empty() ? class_names_in(file) : class_names;
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

}  // namespace winnow
