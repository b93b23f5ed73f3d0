#include "winnow/net/join/member_data.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/data/fit.h"
#include "winnow/data/image_layouts.h"
#include "winnow/data/list_file.h"
#include "winnow/data/npz.h"

namespace winnow::member {
namespace {

namespace fs = std::filesystem;

constexpr const char* kForms =
    "expected a folder with a folder of images for each class, a list of images, or an .npz file "
    "with images and labels";

[[noreturn]] void reject_data(const std::string& what, const std::string& hint = "") {
  throw Error(ErrorKind::data, what, hint);
}

// What the charter says of images.
struct Contract {
  std::vector<std::string> classes;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  std::string shape() const { return fmt::format("{}x{}x{}", channels, height, width); }
};

Contract contract_in(const Charter& charter) {
  const Json& data = charter.data;
  return {data.at("class_names").get<std::vector<std::string>>(),
          data.at("channels").get<std::int64_t>(), data.at("height").get<std::int64_t>(),
          data.at("width").get<std::int64_t>()};
}

[[noreturn]] void reject_class(const std::string& where, const std::string& name,
                               const Contract& contract) {
  reject_data(fmt::format("{}: class '{}' is not one of the federation's", where, name),
              suggestion(name, contract.classes));
}

std::int64_t class_of(const std::string& where, const std::string& name, const Contract& contract) {
  const auto found = std::ranges::find(contract.classes, name);
  if (found == contract.classes.end()) {
    reject_class(where, name, contract);
  }
  return found - contract.classes.begin();
}

std::vector<ImageEntry> entries_of_folder(const fs::path& root, const Contract& contract) {
  const std::vector<std::string> folders = visible_folders(root);
  if (folders.empty()) {
    reject_data(fmt::format("{}: no class folders", root.string()), kForms);
  }
  std::vector<std::int64_t> classes;
  for (const std::string& folder : folders) {
    classes.push_back(class_of(root.string(), folder, contract));
  }
  std::vector<ImageEntry> entries = scan_class_folders(root, folders);
  for (ImageEntry& entry : entries) {
    entry.label = classes[static_cast<std::size_t>(entry.label)];
  }
  return entries;
}

std::vector<ImageEntry> entries_of_list(const fs::path& file, const Contract& contract) {
  const ListFile list = read_list_file(file);
  if (list.rows.empty()) {
    reject_data(fmt::format("{}: no image in this list", file.string()), kForms);
  }
  for (const ListRow& row : list.rows) {
    if (std::ranges::count(contract.classes, row.label) == 0 && !label_number(list, row)) {
      reject_class(list.where(row), row.label, contract);
    }
  }
  return images_of_list(list, file.parent_path(), contract.classes).entries;
}

Samples decode_entries(const fs::path& path, const std::vector<ImageEntry>& entries,
                       const Contract& contract) {
  if (contract.height != contract.width) {
    reject_data(fmt::format("{}: image files become squares, but the federation's images are "
                            "{}x{}",
                            path.string(), contract.height, contract.width),
                "bring an .npz file with images and labels");
  }
  Samples samples = decode_images(entries, contract.height);
  samples.images =
      fit_images(samples.images, contract.channels, contract.height, contract.width).contiguous();
  return samples;
}

// The layout by which an array has the charter's shape.
std::string layout_of_array(const NpyArray& array, const Contract& contract) {
  const std::vector<std::int64_t>& shape = array.shape();
  const auto is = [&](std::initializer_list<std::int64_t> sizes) {
    return shape.size() == sizes.size() + 1 &&
           std::equal(sizes.begin(), sizes.end(), shape.begin() + 1);
  };
  if (is({contract.channels, contract.height, contract.width})) {
    return "nchw";
  }
  if (is({contract.height, contract.width, contract.channels})) {
    return "nhwc";
  }
  if (contract.channels == 1 && is({contract.height, contract.width})) {
    return "auto";
  }
  reject_data(fmt::format("{}: shape {}, but the federation's images are {}", array.name(),
                          array.shape_text(), contract.shape()),
              "bring them to that size, channels first or last");
}

void compare_classes(const NpzFile& file, const Contract& contract) {
  const std::vector<std::string> arrays = file.names();
  if (std::ranges::find(arrays, "class_names") == arrays.end()) {
    return;
  }
  const NpyArray names = file.array("class_names");
  std::vector<std::string> own;
  for (std::size_t i = 0; i < names.size() && std::ssize(own) <= kMostClasses; ++i) {
    own.push_back(names.text(i));
  }
  if (own != contract.classes) {
    reject_data(fmt::format("{} are {}, but the federation's classes are {}", names.name(),
                            join(own, ", "), join(contract.classes, ", ")),
                "labels count the federation's classes from 0");
  }
}

Samples read_arrays_of(const fs::path& path, const Contract& contract) {
  const NpzFile file(path);
  compare_classes(file, contract);
  NpyArray images = file.array("images");
  const ArrayOptions options{.layout = layout_of_array(images, contract)};
  Samples samples;
  samples.images = read_array_images(std::move(images), options).contiguous();
  samples.labels =
      read_array_labels(file.array("labels"), samples.images.size(0), std::ssize(contract.classes));
  return samples;
}

std::vector<std::string> names_of_arrays(const fs::path& path) {
  const NpzFile file(path);
  const std::vector<std::string> arrays = file.names();
  std::vector<std::string> names;
  if (std::ranges::find(arrays, "names") != arrays.end()) {
    const NpyArray array = file.array("names");
    for (std::size_t i = 0; i < array.size(); ++i) {
      names.push_back(array.text(i));
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> read_member_names(const fs::path& path, const Charter& charter) {
  const Contract contract = contract_in(charter);
  std::vector<std::string> names;
  if (fs::is_directory(path)) {
    for (const ImageEntry& entry : entries_of_folder(path, contract)) {
      names.push_back(entry.file.lexically_relative(path).string());
    }
  } else if (path.extension() == ".npz") {
    names = names_of_arrays(path);
  } else {
    for (const ListRow& row : read_list_file(path).rows) {
      names.push_back(row.file);
    }
  }
  return names;
}

Samples read_member_data(const fs::path& path, const Charter& charter) {
  const Contract contract = contract_in(charter);
  try {
    if (fs::is_directory(path)) {
      return decode_entries(path, entries_of_folder(path, contract), contract);
    }
    if (!fs::exists(path)) {
      reject_data(fmt::format("--data {}: no such file or folder", path.string()), kForms);
    }
    if (path.extension() == ".npz") {
      return read_arrays_of(path, contract);
    }
    return decode_entries(path, entries_of_list(path, contract), contract);
  } catch (const fs::filesystem_error& error) {  // a link that leads nowhere, a folder kept shut
    reject_data(fmt::format("{}: {}", error.path1().string(), error.code().message()));
  }
}

}  // namespace winnow::member
