// Everything that an experiment can choose by name, in one place. It is passed to whoever reads,
// runs, lists or describes experiments; a program of one's own starts from builtin_registry() and
// adds to its catalogs (examples/own_method; tests/cli/own_parts_test.cpp adds one of each).
#pragma once

#include <memory>
#include <string>

#include "winnow/data/catalog.h"
#include "winnow/data/partition.h"
#include "winnow/method/method.h"
#include "winnow/model/net.h"
#include "winnow/noise/image/distortion.h"
#include "winnow/noise/label/label_noise.h"

namespace winnow {

// Made without arguments it has what Winnow brings.
struct Registry {
  Methods methods = builtin_methods();
  Networks networks = builtin_networks();
  DataSets data_sets = builtin_data_sets();
  Partitions partitions = builtin_partitions();
  LabelNoises label_noises = builtin_label_noises();
  Distortions distortions = builtin_distortions();

  // The method of that name, which knows the other methods and the networks. Throws
  // Error(kind experiment) with a suggestion for an unknown name.
  std::unique_ptr<Method> make(const std::string& method) const;
};

// A registry of what Winnow brings, and nothing else.
inline Registry builtin_registry() {
  return {};
}

}  // namespace winnow
