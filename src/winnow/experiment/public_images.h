// Images that everybody has and nobody has labels for: part of the training data, another data set,
// or any folder of images.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/data/catalog.h"
#include "winnow/data/data_set.h"

namespace winnow {

// The [public] table of an experiment.
struct PublicOptions {
  std::string source = "none";
  std::string name = "";
  std::string path = "";
  std::int64_t size = 5000;
};

Params declare(PublicOptions& options);
// Throws Error(kind experiment) for options that contradict each other.
void check(const PublicOptions& options, const DataSets& known);

// The images in the shape of the data set's (see fit_images()), undefined without a source. Which
// ones is drawn from (seed, "public"). A split is taken out of `left`, the training samples that
// the server has left for the clients, ascending. Throws Error(kind data) when there are too few.
at::Tensor take_public_images(const PublicOptions& options, std::uint64_t seed,
                              const DataSets& known, const DataSet& data,
                              std::vector<std::int64_t>& left);

}  // namespace winnow
