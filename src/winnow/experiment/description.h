// Everything that has a name, described: what `winnow describe` prints.
#pragma once

#include <string>
#include <vector>

#include "winnow/base/json.h"
#include "winnow/experiment/registry.h"

namespace winnow {

// All things of that name: methods, partitions, noises, models, data sets, distortions and tables
// of an experiment. Each has kind, name, summary and parameters (name, type, default, range, help,
// source), a method also its exchanges as it has them with its default parameters, a data set where
// it was found. Throws Error(kind usage) with a suggestion where there is none.
std::vector<Json> describe(const std::string& name, const Registry& registry);

// The names that describe() knows.
std::vector<std::string> describable_names(const Registry& registry);

}  // namespace winnow
