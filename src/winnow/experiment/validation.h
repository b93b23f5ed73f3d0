// The server's own validation set: part of the training data, or any labelled image folder, clean
// or degraded on purpose.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/data/data_set.h"
#include "winnow/noise/image/distortion.h"

namespace winnow {

// The [validation] table of an experiment.
struct ValidationOptions {
  std::string source = "none";
  double share = 0.1;
  bool balanced = false;
  std::string path = "";
  std::string distortion = "";
  std::int64_t severity = 3;
};

Params declare(ValidationOptions& options);
// Throws Error(kind experiment) for options that contradict each other.
void check(const ValidationOptions& options, const Distortions& known);

// Fills data.validation and returns the training samples that are left for the clients, ascending.
// A split is drawn from (seed, "validation") before anything is partitioned, and always carries
// true labels (spec: label-noise C.4 #6, #7). The classes of a folder are matched by name where the
// data set knows its class names, else by order. Throws Error(kind data) when a folder does not
// fit.
std::vector<std::int64_t> make_validation(const ValidationOptions& options, std::uint64_t seed,
                                          const Distortions& known, DataSet& data);

}  // namespace winnow
