// The paths in an experiment's tree: data.path, model.weights, ...
#pragma once

#include <filesystem>
#include <functional>

#include "winnow/base/json.h"

namespace winnow {

// Makes them absolute, so that they still hold when the run is resumed from another folder. A
// relative one is looked for from the current folder, then from `folder`, then from where data sets
// are looked for.
void anchor_paths(Json& tree, const std::filesystem::path& folder);

// Calls `visit` with every table of the tree that may name files, and the key that does.
void for_each_path(Json& tree, const std::function<void(Json& table, const char* key)>& visit);

}  // namespace winnow
