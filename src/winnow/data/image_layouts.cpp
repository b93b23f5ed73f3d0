#include "winnow/data/image_layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/json.h"
#include "winnow/base/random.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kClothingClasses = 14;
constexpr std::int64_t kMiniWebVisionClasses = 50;
constexpr const char* kImages = "images";  // Tiny-ImageNet has one in every class folder

[[noreturn]] void reject(const std::string& what, const std::string& hint = "") {
  throw Error(ErrorKind::data, what, hint);
}

// Visible folders below `folder`, in order of their names.
std::vector<std::string> folder_names(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && !name.starts_with('.')) {
      if (!is_utf8(name)) {
        reject(fmt::format("{}: the name of this class folder is not UTF-8", entry.path().string()),
               "rename the folder");
      }
      names.push_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

constexpr const char* kFolderLayout =
    "expected CLASS/*.png, or train/CLASS/*.png with test/CLASS/*.png";

std::vector<fs::path> images_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file() && is_image_name(entry.path())) {
      files.push_back(entry.path());
    }
  }
  return files;
}

bool holds_images(const fs::path& folder) {
  return std::ranges::any_of(fs::recursive_directory_iterator(folder), [](const auto& entry) {
    return entry.is_regular_file() && is_image_name(entry.path());
  });
}

// A class has no classes or clients inside: read as one, train and test images would mix.
void check_no_folders_of_images(const fs::path& folder, bool has_images) {
  std::vector<std::string> nested;
  for (const std::string& name : folder_names(folder)) {
    if (name != kImages && holds_images(folder / name)) {
      nested.push_back(name);
    }
  }
  if (!nested.empty()) {
    constexpr std::size_t kNamed = 3;
    reject(fmt::format("{}: not a class folder, it holds {}folders with images ({}{})",
                       folder.string(), has_images ? "images and also " : "no images but ",
                       join(std::span(nested).first(std::min(kNamed, nested.size())), ", "),
                       nested.size() > kNamed ? ", ..." : ""),
           fmt::format("{}; for a folder per client, CLIENT/CLASS/*.png, set data.name = "
                       "\"clients\"",
                       kFolderLayout));
  }
}

void add_class_images(const fs::path& folder, std::int64_t label,
                      std::vector<ImageEntry>& entries) {
  std::vector<fs::path> files = images_in(folder);
  if (fs::is_directory(folder / kImages)) {
    const std::vector<fs::path> more = images_in(folder / kImages);
    files.insert(files.end(), more.begin(), more.end());
    check_no_folders_of_images(folder / kImages, !more.empty());
  }
  check_no_folders_of_images(folder, !files.empty());
  if (files.empty()) {
    reject(fmt::format("{}: no PNG or JPEG image in this class folder", folder.string()),
           "every folder beside the classes counts as a class; remove empty ones");
  }
  std::ranges::sort(files);
  for (fs::path& file : files) {
    entries.push_back({std::move(file), label});
  }
}

std::int64_t class_number(const std::vector<std::string>& names, const std::string& name,
                          const std::string& where) {
  const auto found = std::ranges::lower_bound(names, name);
  if (found == names.end() || *found != name) {
    reject(fmt::format("{}: class '{}' is not among the training classes", where, name),
           suggestion(name, names));
  }
  return found - names.begin();
}

std::vector<ImageEntry> scan_classes(const fs::path& folder,
                                     const std::vector<std::string>& class_names) {
  std::vector<ImageEntry> entries;
  for (const std::string& name : folder_names(folder)) {
    add_class_images(folder / name, class_number(class_names, name, folder.string()), entries);
  }
  return entries;
}

// Tiny-ImageNet: lines "file<TAB>class<TAB>box", images beside the file in images/.
std::vector<ImageEntry> scan_annotations(const fs::path& file,
                                         const std::vector<std::string>& class_names) {
  std::vector<ImageEntry> entries;
  for_each_line(file, [&](std::string_view line, std::int64_t number) {
    const std::vector<std::string> cells = split(line, '\t');
    const std::string where = fmt::format("{} line {}", file.string(), number);
    if (cells.size() < 2) {
      reject(fmt::format("{}: expected 'file<TAB>class'", where));
    }
    entries.push_back({file.parent_path() / kImages / cells[0],
                       class_number(class_names, std::string(trim(cells[1])), where)});
  });
  return entries;
}

// Keeps 80 % of `train`, drawn without regard to classes, and moves the rest to `test`. Both keep
// the order they had.
void split_off_test(ImageSplit& split, const fs::path& source, std::uint64_t seed) {
  const auto count = std::ssize(split.train);
  const std::int64_t kept = count * 4 / 5;
  if (kept == 0 || kept == count) {
    reject(fmt::format("{}: {} images are too few to split into train and test", source.string(),
                       count));
  }
  const std::vector<std::int64_t> order = Stream(seed, "data split").permutation(count);
  std::vector<bool> in_train(split.train.size(), false);
  for (std::int64_t i = 0; i < kept; ++i) {
    in_train[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = true;
  }
  split.test_drawn = true;
  std::vector<ImageEntry> all;
  all.swap(split.train);
  for (std::size_t i = 0; i < all.size(); ++i) {
    (in_train[i] ? split.train : split.test).push_back(std::move(all[i]));
  }
}

// The images of a list whose labels are numbers.
std::vector<ImageEntry> numbered_entries(const ListFile& list, const fs::path& base) {
  std::vector<ImageEntry> entries;
  entries.reserve(list.rows.size());
  for (const ListRow& row : list.rows) {
    const auto label = label_number(list, row);
    if (!label) {
      reject(fmt::format("{}: label '{}' is not a number", list.where(row), row.label));
    }
    entries.push_back({base / row.file, *label});
  }
  return entries;
}

std::vector<ImageEntry> read_list(const fs::path& list, const fs::path& base) {
  return numbered_entries(read_list_file(list), base);
}

void check_class_name(const std::string& name, const std::string& where) {
  constexpr std::size_t kLongest = 255;  // bytes, as the name of a folder
  if (!is_utf8(name)) {
    reject(fmt::format("{}: the name of this class is not UTF-8", where));
  }
  if (name.size() > kLongest) {
    reject(fmt::format("{}: a class name of {} bytes, expected at most {}", where, name.size(),
                       kLongest));
  }
}

// The classes that the labels of a list name, sorted; none when the labels are numbers.
std::vector<std::string> names_in(const ListFile& list) {
  std::set<std::string> names;
  const ListRow* number = nullptr;
  const ListRow* name = nullptr;
  for (const ListRow& row : list.rows) {
    if (label_number(list, row)) {
      number = &row;
    } else {
      name = &row;
      if (names.insert(row.label).second) {
        check_class_name(row.label, list.where(row));
      }
    }
    if (number != nullptr && name != nullptr) {
      reject(fmt::format("{}: label '{}' is a name, but that of line {} is the number {}",
                         list.where(*name), name->label, number->line, number->label),
             "use names or numbers throughout, or give data.class_names");
    }
  }
  if (std::ssize(names) > kMostClasses) {
    reject(fmt::format("{}: the labels name {} classes, expected at most {}", list.name,
                       names.size(), kMostClasses));
  }
  return {names.begin(), names.end()};
}

// Class numbers by name.
class ClassOrder {
 public:
  explicit ClassOrder(const std::vector<std::string>& names) : names_(names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      number_of_.emplace(names[i], static_cast<std::int64_t>(i));
    }
  }

  // A label that is none of the names may be a number where `numbers` says so.
  std::vector<ImageEntry> entries(const ListFile& list, const fs::path& base, bool numbers) const {
    std::vector<ImageEntry> entries;
    entries.reserve(list.rows.size());
    for (const ListRow& row : list.rows) {
      entries.push_back({base / row.file, number(list, row, numbers)});
    }
    return entries;
  }

 private:
  std::int64_t number(const ListFile& list, const ListRow& row, bool numbers) const {
    if (const auto found = number_of_.find(row.label); found != number_of_.end()) {
      return found->second;
    }
    if (numbers) {
      if (const auto label = label_number(list, row)) {
        if (*label >= std::ssize(names_)) {
          reject(fmt::format("{}: label {} is outside 0..{}", list.where(row), *label,
                             std::ssize(names_) - 1));
        }
        return *label;
      }
    }
    reject(fmt::format("{}: class '{}' is not among {}", list.where(row), row.label,
                       numbers ? "data.class_names" : "the training classes"),
           suggestion(row.label, names_));
  }

  const std::vector<std::string>& names_;
  std::unordered_map<std::string, std::int64_t> number_of_;
};

std::vector<std::string> numbered(std::int64_t classes) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < classes; ++i) {
    names.push_back(std::to_string(i));
  }
  return names;
}

std::int64_t most_label(const std::vector<ImageEntry>& entries) {
  std::int64_t most = 0;
  for (const ImageEntry& entry : entries) {
    most = std::max(most, entry.label);
  }
  return most;
}

void check_labels(const fs::path& list, const std::vector<ImageEntry>& entries,
                  std::int64_t classes) {
  if (const std::int64_t most = most_label(entries); most >= classes) {
    reject(fmt::format("{}: label {} is outside 0..{}", list.string(), most, classes - 1));
  }
}

// The files of a key list with the labels that a `path label` file gives them.
std::vector<ImageEntry> join_keys(const fs::path& root, const fs::path& keys,
                                  const fs::path& labels) {
  std::unordered_map<std::string, std::int64_t> label_of;
  for (const ImageEntry& entry : read_list(labels, root)) {
    label_of.emplace(entry.file.string(), entry.label);
  }
  std::vector<ImageEntry> entries;
  for_each_line(keys, [&](std::string_view line, std::int64_t number) {
    const fs::path file = root / line;
    const auto found = label_of.find(file.string());
    if (found == label_of.end()) {
      reject(fmt::format("{} line {}: '{}' has no label in {}", keys.string(), number, line,
                         labels.string()));
    }
    entries.push_back({file, found->second});
  });
  check_labels(labels, entries, kClothingClasses);
  return entries;
}

ImageSplit scan_folder(const fs::path& root, std::uint64_t seed) {
  const bool has_train = fs::is_directory(root / "train");
  const fs::path train = has_train ? root / "train" : root;
  ImageSplit split;
  split.class_names = folder_names(train);
  if (split.class_names.empty()) {
    reject(fmt::format("{}: no class folders", train.string()), kFolderLayout);
  }
  split.train = scan_classes(train, split.class_names);
  if (has_train && fs::exists(root / "val" / "val_annotations.txt")) {
    split.test = scan_annotations(root / "val" / "val_annotations.txt", split.class_names);
  } else if (has_train && fs::is_directory(root / "test")) {
    split.test = scan_classes(root / "test", split.class_names);
  } else if (has_train && fs::is_directory(root / "val")) {
    split.test = scan_classes(root / "val", split.class_names);
  } else {
    split_off_test(split, root, seed);
  }
  return split;
}

}  // namespace

ImageSplit scan_image_folder(const fs::path& root, std::uint64_t seed) {
  try {
    return scan_folder(root, seed);
  } catch (const fs::filesystem_error& error) {  // a link that leads nowhere, a folder kept shut
    reject(fmt::format("{}: {}", error.path1().string(), error.code().message()));
  }
}

ImageSplit scan_image_list(const fs::path& list, const fs::path& test_list, std::uint64_t seed,
                           const std::vector<std::string>& class_names) {
  std::vector<std::pair<ListFile, fs::path>> lists;
  lists.emplace_back(read_list_file(list), list.parent_path());
  if (!test_list.empty()) {
    lists.emplace_back(read_list_file(test_list), test_list.parent_path());
  }
  ImageSplit split;
  for (const auto& [part, base] : lists) {
    for (const std::string& column : part.unused_columns) {
      if (std::ranges::find(split.unused_columns, column) == split.unused_columns.end()) {
        split.unused_columns.push_back(column);
      }
    }
  }
  split.class_names = class_names.empty() ? names_in(lists.front().first) : class_names;
  split.named = !split.class_names.empty();
  const ClassOrder order(split.class_names);
  const auto entries = [&](const std::pair<ListFile, fs::path>& part) {
    return split.named ? order.entries(part.first, part.second, !class_names.empty())
                       : numbered_entries(part.first, part.second);
  };
  split.train = entries(lists.front());
  if (test_list.empty()) {
    split_off_test(split, list, seed);
  } else {
    split.test = entries(lists.back());
  }
  if (!split.named) {
    split.class_names = numbered(1 + std::max(most_label(split.train), most_label(split.test)));
  }
  return split;
}

std::vector<std::string> visible_folders(const fs::path& folder) {
  return folder_names(folder);
}

std::vector<ImageEntry> scan_class_folders(const fs::path& root,
                                           const std::vector<std::string>& class_names) {
  return scan_classes(root, class_names);
}

ListedImages images_of_list(const ListFile& list, const fs::path& base,
                            const std::vector<std::string>& class_names) {
  ListedImages images;
  images.class_names = class_names.empty() ? names_in(list) : class_names;
  images.named = !images.class_names.empty();
  if (images.named) {
    images.entries = ClassOrder(images.class_names).entries(list, base, !class_names.empty());
  } else {
    images.entries = numbered_entries(list, base);
    images.class_names = numbered(1 + most_label(images.entries));
  }
  return images;
}

ImageSplit scan_clothing1m(const fs::path& root) {
  const fs::path notes = fs::exists(root / "noisy_label_kv.txt") ? root : root / "annotations";
  ImageSplit split;
  split.train = join_keys(root, notes / "noisy_train_key_list.txt", notes / "noisy_label_kv.txt");
  split.test = join_keys(root, notes / "clean_test_key_list.txt", notes / "clean_label_kv.txt");
  split.class_names = numbered(kClothingClasses);
  return split;
}

ImageSplit scan_webvision(const fs::path& root) {
  const auto read = [](const fs::path& list, const fs::path& base) {
    std::vector<ImageEntry> entries = read_list(list, base);
    std::erase_if(entries,
                  [](const ImageEntry& entry) { return entry.label >= kMiniWebVisionClasses; });
    return entries;
  };
  ImageSplit split;
  split.train = read(root / "info" / "train_filelist_google.txt", root);
  split.test = read(root / "info" / "val_filelist.txt", root / "val_images_256");
  split.class_names = numbered(kMiniWebVisionClasses);
  return split;
}

}  // namespace winnow
