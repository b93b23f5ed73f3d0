#include "winnow/data/client_sets.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/json.h"
#include "winnow/base/random.h"
#include "winnow/data/image_files.h"
#include "winnow/data/image_layouts.h"
#include "winnow/data/list_file.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClientLayout =
    "expected CLIENT/CLASS/*.png, a list with the columns path, label and client, or an .npz file";
constexpr std::size_t kLongestName = 255;

[[noreturn]] void reject_clients(const std::string& what, const std::string& hint = "") {
  throw Error(ErrorKind::data, what, hint);
}

void check_client_name(const std::string& name, const std::string& where) {
  const bool shown = std::ranges::none_of(name, [](unsigned char c) { return c < 32 || c == 127; });
  if (name.empty() || name.size() > kLongestName || !is_utf8(name) || !shown) {
    reject_clients(
        fmt::format("{}: a client's name has 1 to {} bytes of UTF-8 without control "
                    "characters",
                    where, kLongestName));
  }
}

// floor(share * count), and at least one is left.
std::int64_t taken_of(std::int64_t count, double share) {
  const auto part =
      static_cast<std::int64_t>(std::floor(static_cast<double>(count) * share + 1e-9));
  return std::min(part, count - 1);
}

}  // namespace

Held held_by(const std::vector<std::string>& names, const std::string& where) {
  const auto is_number = [](const std::string& name) {
    return name.size() <= 18 && !name.empty() &&
           std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  };
  const bool numbers = std::ranges::all_of(names, is_number);
  const auto before = [numbers](const std::string& one, const std::string& other) {
    return numbers && one.size() != other.size() ? one.size() < other.size() : one < other;
  };
  std::map<std::string, std::int64_t, decltype(before)> number_of(before);
  for (const std::string& name : names) {
    if (number_of.emplace(name, 0).second) {
      check_client_name(name, where);
    }
  }
  Held held;
  for (auto& [name, number] : number_of) {
    number = std::ssize(held.clients);
    held.clients.push_back(name);
  }
  for (const std::string& name : names) {
    held.owners.push_back(number_of.at(name));
  }
  return held;
}

std::vector<bool> share_to_test(const Held& held, double share, std::uint64_t seed) {
  std::vector<std::vector<std::int64_t>> by_client(held.clients.size());
  for (std::size_t i = 0; i < held.owners.size(); ++i) {
    by_client[static_cast<std::size_t>(held.owners[i])].push_back(static_cast<std::int64_t>(i));
  }
  std::vector<bool> tests(held.owners.size(), false);
  for (std::size_t client = 0; client < by_client.size(); ++client) {
    std::vector<std::int64_t>& own = by_client[client];
    Stream(seed, "test share", client).shuffle(std::span(own));
    const std::int64_t part = taken_of(std::ssize(own), share);
    for (std::int64_t i = 0; i < part; ++i) {
      tests[static_cast<std::size_t>(own[static_cast<std::size_t>(i)])] = true;
    }
  }
  return tests;
}

namespace {

// Which samples train and which test; owners of the training part, counted anew.
struct Division {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> test;
  Held held;
  bool drawn = false;
};

Division all_train(Held held) {
  Division division;
  division.train.resize(held.owners.size());
  std::iota(division.train.begin(), division.train.end(), std::int64_t{0});
  division.held = std::move(held);
  return division;
}

Division hold_out_clients(const Held& held, const ClientSetOptions& options,
                          const std::string& where) {
  const std::int64_t out =
      std::max<std::int64_t>(1, taken_of(std::ssize(held.clients), options.test_share));
  if (out >= std::ssize(held.clients)) {
    reject_clients(fmt::format("{}: {} client, too few to hold any out for testing", where,
                               held.clients.size()),
                   "set data.test_from = \"share\", or set data.test_path to checked images");
  }
  std::vector<bool> tests(held.clients.size(), false);
  for (const std::int64_t client :
       Stream(options.seed, "test clients").sample(std::ssize(held.clients), out)) {
    tests[static_cast<std::size_t>(client)] = true;
  }
  Division division;
  division.drawn = true;
  std::vector<std::int64_t> number(held.clients.size(), -1);
  for (std::size_t client = 0; client < held.clients.size(); ++client) {
    if (!tests[client]) {
      number[client] = std::ssize(division.held.clients);
      division.held.clients.push_back(held.clients[client]);
    }
  }
  for (std::size_t i = 0; i < held.owners.size(); ++i) {
    const auto owner = static_cast<std::size_t>(held.owners[i]);
    (tests[owner] ? division.test : division.train).push_back(static_cast<std::int64_t>(i));
    if (!tests[owner]) {
      division.held.owners.push_back(number[owner]);
    }
  }
  return division;
}

Division take_shares(Held held, const ClientSetOptions& options, const std::string& where) {
  const std::vector<bool> tests = share_to_test(held, options.test_share, options.seed);
  Division division;
  division.drawn = true;
  division.held.clients = std::move(held.clients);
  for (std::size_t i = 0; i < tests.size(); ++i) {
    (tests[i] ? division.test : division.train).push_back(static_cast<std::int64_t>(i));
    if (!tests[i]) {
      division.held.owners.push_back(held.owners[i]);
    }
  }
  if (division.test.empty()) {
    reject_clients(fmt::format("{}: no client has enough samples to test on {} of them", where,
                               options.test_share),
                   "raise data.test_share, or set data.test_path to checked images");
  }
  return division;
}

Division divide(Held held, bool own_test, const ClientSetOptions& options,
                const std::string& where) {
  if (options.test_from == "none" || own_test) {
    return all_train(std::move(held));
  }
  if (options.test_from == "clients") {
    return hold_out_clients(held, options, where);
  }
  return take_shares(std::move(held), options, where);
}

bool wants_own(const ClientSetOptions& options) {
  return options.test_from == "own" || options.test_from == "auto";
}

template <typename T>
std::vector<T> chosen(const std::vector<T>& all, const std::vector<std::int64_t>& which) {
  std::vector<T> part;
  part.reserve(which.size());
  for (const std::int64_t i : which) {
    part.push_back(all[static_cast<std::size_t>(i)]);
  }
  return part;
}

// Image files with their owners, in one order.
struct ClientImages {
  std::vector<ImageEntry> entries;
  std::vector<std::string> clients;  // of each entry
  std::vector<std::string> class_names;
  bool folders = false;
};

bool has_images(const fs::path& folder) {
  return std::ranges::any_of(fs::directory_iterator(folder), [](const auto& entry) {
    return entry.is_regular_file() && is_image_name(entry.path());
  });
}

// A folder of classes alone: the images of one client.
ClientImages scan_one_client(const fs::path& root, std::vector<std::string> classes) {
  ClientImages images;
  images.folders = true;
  images.class_names = std::move(classes);
  images.entries = scan_class_folders(root, images.class_names);
  const fs::path whole = fs::absolute(root).lexically_normal();
  const fs::path own = whole.has_filename() ? whole.filename() : whole.parent_path().filename();
  images.clients.assign(images.entries.size(), own.string());
  return images;
}

ClientImages scan_folders(const fs::path& root) {
  ClientImages images;
  images.folders = true;
  std::vector<std::string> clients = visible_folders(root);
  const auto holds_images = [&](const std::string& name) { return has_images(root / name); };
  if (!clients.empty() && std::ranges::all_of(clients, holds_images)) {
    return scan_one_client(root, std::move(clients));
  }
  std::set<std::string> classes;
  for (const std::string& client : clients) {
    const std::vector<std::string> own = visible_folders(root / client);
    if (own.empty()) {
      reject_clients(
          fmt::format("{}: no class folder in this client's folder", (root / client).string()),
          kClientLayout);
    }
    classes.insert(own.begin(), own.end());
  }
  if (clients.empty()) {
    reject_clients(fmt::format("{}: no client folders", root.string()), kClientLayout);
  }
  if (std::ssize(classes) > kMostClasses) {
    reject_clients(fmt::format("{}: {} classes, expected at most {}", root.string(), classes.size(),
                               kMostClasses));
  }
  images.class_names.assign(classes.begin(), classes.end());
  for (const std::string& client : clients) {
    for (ImageEntry& entry : scan_class_folders(root / client, images.class_names)) {
      images.entries.push_back(std::move(entry));
      images.clients.push_back(client);
    }
  }
  return images;
}

ClientImages scan_list(const fs::path& file, const ClientSetOptions& options) {
  const ListFile list = read_list_file(file, /*with_clients=*/true);
  ListedImages listed = images_of_list(list, file.parent_path(), options.class_names);
  ClientImages images{std::move(listed.entries), {}, std::move(listed.class_names)};
  for (const ListRow& row : list.rows) {
    images.clients.push_back(row.client);
  }
  return images;
}

ClientImages scan_images(const fs::path& place, const ClientSetOptions& options) {
  try {
    return fs::is_directory(place) ? scan_folders(place) : scan_list(place, options);
  } catch (const fs::filesystem_error& error) {  // a link that leads nowhere, a folder kept shut
    reject_clients(fmt::format("{}: {}", error.path1().string(), error.code().message()));
  }
}

std::vector<ImageEntry> own_test_images(const ClientSetOptions& options,
                                        std::vector<std::string>& class_names) {
  if (fs::is_directory(options.test_path)) {
    return scan_class_folders(options.test_path, class_names);
  }
  return images_of_list(read_list_file(options.test_path), options.test_path.parent_path(),
                        class_names)
      .entries;
}

// As the folder or the list has it.
std::string name_of(const ImageEntry& entry, const fs::path& base) {
  const std::string name = entry.file.lexically_relative(base).generic_string();
  return name.empty() || !is_utf8(name) ? entry.file.filename().generic_string() : name;
}

void check_own(const ClientSetOptions& options, bool there, const std::string& where) {
  if (options.test_from == "own" && !there) {
    reject_clients(fmt::format("{}: data.test_from = \"own\", but there is no test part", where),
                   "set data.test_path to a folder CLASS/* or a list; an .npz file needs "
                   "test_images and test_labels");
  }
}

DataSet read_images(const fs::path& place, const ClientSetOptions& options) {
  ClientImages images = scan_images(place, options);
  const bool own = wants_own(options) && !options.test_path.empty();
  check_own(options, own, place.string());
  DataSet set;
  set.class_names = images.class_names;
  set.classes = std::ssize(set.class_names);
  Division division = divide(held_by(images.clients, place.string()), own, options, place.string());
  const fs::path base = images.folders ? place : place.parent_path();
  const std::vector<ImageEntry> train = chosen(images.entries, division.train);
  for (const ImageEntry& entry : train) {
    set.names.push_back(name_of(entry, base));
  }
  for (const ImageEntry& entry : chosen(images.entries, division.test)) {
    set.test_names.push_back(name_of(entry, base));
  }
  set.train = decode_images(train, options.image_size);
  set.test = decode_images(
      own ? own_test_images(options, set.class_names) : chosen(images.entries, division.test),
      options.image_size);
  set.owners = std::move(division.held.owners);
  set.client_names = std::move(division.held.clients);
  set.test_drawn = division.drawn;
  return set;
}

bool is_archive(const fs::path& place) {
  return !fs::is_directory(place) && place.extension() == ".npz";
}

void check_length(const NpyArray& array, std::int64_t samples) {
  if (array.shape().size() != 1 || array.shape()[0] != samples) {
    reject_clients(fmt::format("{}: shape {}, but there are {} images", array.name(),
                               array.shape_text(), samples));
  }
}

std::vector<std::string> texts_of(const NpyArray& array, std::int64_t samples) {
  check_length(array, samples);
  std::vector<std::string> texts;
  texts.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    texts.push_back(array.text(i));
  }
  return texts;
}

Samples part_of_samples(const Samples& all, const std::vector<std::int64_t>& which) {
  at::Tensor index = at::empty({std::ssize(which)}, at::kLong);
  std::ranges::copy(which, index.data_ptr<std::int64_t>());
  return {all.images.index_select(0, index), chosen(all.labels, which)};
}

Held held_in(const NpzFile& file, const fs::path& place) {
  const NpyArray clients = file.array("clients");
  if (clients.shape().size() != 1) {
    reject_clients(fmt::format("{}: shape {}, expected a client for each image: (n,)",
                               clients.name(), clients.shape_text()));
  }
  return held_by(texts_of(clients, clients.shape()[0]), place.string() + ": clients");
}

DataSet read_archive(const fs::path& place, const ClientSetOptions& options) {
  const NpzFile file(place);
  const std::vector<std::string> arrays = file.names();
  const auto has = [&](const char* name) {
    return std::ranges::find(arrays, name) != arrays.end();
  };
  const bool own = wants_own(options) && has("test_images");
  check_own(options, own, place.string());
  const std::int64_t classes = std::ssize(options.class_names);
  DataSet set = read_array_set([&](const std::string& name) { return file.array(name); },
                               own ? ArrayNames{"images", "labels", "test_images", "test_labels"}
                                   : ArrayNames{"images", "labels", "images", "labels"},
                               place.string(), classes, options.arrays);
  const Held held = held_in(file, place);
  check_length(file.array("clients"), set.train.size());
  std::vector<std::string> names;
  if (has("names")) {
    names = texts_of(file.array("names"), set.train.size());
  } else {
    // By number in the archive, whichever part a sample goes to.
    for (std::int64_t i = 0; i < set.train.size(); ++i) {
      names.push_back(std::to_string(i));
    }
  }
  Division division = divide(held, own, options, place.string());
  if (!own) {
    const Samples all = std::move(set.train);
    set.train = part_of_samples(all, division.train);
    set.test = part_of_samples(all, division.test);
  }
  set.names = chosen(names, division.train);
  set.test_names = chosen(names, division.test);
  if (!options.class_names.empty()) {
    set.class_names = options.class_names;
  }
  set.owners = std::move(division.held.owners);
  set.client_names = std::move(division.held.clients);
  set.test_drawn = division.drawn;
  return set;
}

}  // namespace

DataSet read_client_set(const fs::path& place, const ClientSetOptions& options) {
  DataSet set = is_archive(place) ? read_archive(place, options) : read_images(place, options);
  if (options.test_from == "none") {
    set.test = part_of_samples(set.train, {0});
  }
  return set;
}

std::int64_t count_clients_of(const fs::path& place, const ClientSetOptions& options) {
  Held held;
  bool own = wants_own(options) && !options.test_path.empty();
  if (is_archive(place)) {
    const NpzFile file(place);
    const std::vector<std::string> arrays = file.names();
    own = wants_own(options) && std::ranges::find(arrays, "test_images") != arrays.end();
    held = held_in(file, place);
  } else {
    held = held_by(scan_images(place, options).clients, place.string());
  }
  return std::ssize(divide(std::move(held), own, options, place.string()).held.clients);
}

}  // namespace winnow
