// Experiments in which every method plays all its phases in a few rounds.
#pragma once

#include <string>
#include <vector>

#include "run/small_run.h"

namespace winnow {

// Sets what the method's entry says a short run needs.
inline void set_short_schedule(Json& tree, const std::string& method) {
  const Registry registry = methods();
  for (const auto& [key, value] : registry.methods.find(method).smoke.items()) {
    set_by_path(tree, key, value);
  }
}

// Six clients, half of them in a round, and a validation set.
inline Experiment experiment_with(const std::string& method,
                                  const std::vector<std::string>& further = {}) {
  Json tree = small_tree({"federation.clients=6", "federation.fraction=0.5", "data.samples=180",
                          "validation.source=\"split\"", "method.name=\"" + method + "\""});
  set_short_schedule(tree, method);
  for (const std::string& text : further) {
    const Override change = parse_override(text);
    set_by_path(tree, change.key, parse_toml_value(change.value));
  }
  return parse_experiment(tree, methods());
}

}  // namespace winnow
