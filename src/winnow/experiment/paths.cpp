#include "winnow/experiment/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/text.h"
#include "winnow/data/locate.h"

namespace winnow {
namespace {

// Where a relative path leads to something: from here, from where the experiment's file lies, or
// from where data sets are looked for. A path that leads nowhere is meant from here.
std::filesystem::path folder_of(const std::filesystem::path& path,
                                const std::filesystem::path& beside_file) {
  const std::filesystem::path here = std::filesystem::current_path();
  std::vector<std::filesystem::path> places{here, beside_file};
  for (const std::filesystem::path& folder : data_folders()) {
    places.push_back(here / folder);  // an absolute one stays as it is
  }
  const auto found = std::ranges::find_if(places, [&](const std::filesystem::path& place) {
    std::error_code ignored;
    return std::filesystem::exists(place / path, ignored);
  });
  return found == places.end() ? here : *found;
}

// "~/..." is left to who opens it.
void anchor_path(Json& table, const char* key, const std::filesystem::path& folder) {
  const auto value = table.find(key);
  if (value == table.end() || !value->is_string()) {
    return;
  }
  const auto text = value->get<std::string>();
  const std::filesystem::path path = text;
  if (!text.empty() && !text.starts_with("~/") && path.is_relative()) {
    const std::filesystem::path base = folder_of(path, folder);
    const std::string whole = (base / path).lexically_normal().string();
    if (!is_utf8(whole)) {
      throw Error(ErrorKind::experiment,
                  fmt::format("{} = \"{}\": the folder {} has a name that is not UTF-8", key, text,
                              base.string()),
                  "an experiment holds texts in UTF-8 only; rename the folder");
    }
    *value = whole;
  }
}

}  // namespace

void for_each_path(Json& tree, const std::function<void(Json&, const char*)>& visit) {
  const std::initializer_list<std::pair<const char*, std::vector<const char*>>> places{
      {"data", {"path", "list_test", "given_labels", "relabel", "test_path"}},
      {"federation", {"absences"}},
      {"validation", {"path"}},
      {"public", {"path"}},
      {"noise", {"file"}},
      {"model", {"path", "weights"}}};
  for (const auto& [name, keys] : places) {
    const auto found = tree.find(name);
    if (found == tree.end()) {
      continue;
    }
    // [[noise]] is a list of tables, the others are tables.
    const bool is_list = found->is_array();
    for (std::size_t i = 0; i < (is_list ? found->size() : 1); ++i) {
      Json& table = is_list ? (*found)[i] : *found;
      for (const char* key : keys) {
        if (table.is_object()) {
          visit(table, key);
        }
      }
    }
  }
}

void anchor_paths(Json& tree, const std::filesystem::path& folder) {
  for_each_path(tree, [&](Json& table, const char* key) { anchor_path(table, key, folder); });
}

}  // namespace winnow
