// Which settings of an experiment are not at their defaults.
#pragma once

#include <string>
#include <vector>

#include "winnow/experiment/registry.h"

namespace winnow {

// The keys of `experiment`, a tree with every default filled in (experiment.toml of a run), whose
// values are not what an experiment that names the same data, partition, noise, model and method
// and says nothing else would have: "train.lr", "noise.0.rho", "federation.partition.alpha". Those
// names are always among them, and so is what this program does not know, such as a parameter of a
// method that is not in the registry. In the order of the tree.
std::vector<std::string> changed_settings(const Json& experiment, const Registry& registry);

// Gives every run of a report (run/report_data.h) that has an experiment its `changed`.
void add_changed_settings(Json& report, const Registry& registry);

}  // namespace winnow
