#include "winnow/data/locate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets variables
  return value == nullptr ? "" : value;
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

}  // namespace

fs::path expand_home(const std::string& path) {
  const std::string home = environment("HOME");
  return path.starts_with("~/") && !home.empty() ? fs::path(home) / path.substr(2) : fs::path(path);
}

bool is_image_layout(DataLayout layout) {
  return layout == DataLayout::image_folder || layout == DataLayout::image_list ||
         layout == DataLayout::clothing1m || layout == DataLayout::webvision;
}

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

fs::path locate_or_throw(const DataSetInfo& info, const DataOptions& options) {
  DataPlace place = locate(info, options);
  if (!place.there) {
    report_missing(info, place);
  }
  return std::move(place.found);
}

}  // namespace winnow
