// The [data] table of an experiment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "winnow/base/json.h"
#include "winnow/base/params.h"

namespace winnow {

struct DataOptions {
  std::string name = "fashion-mnist";
  std::string path;
  std::string list_test;
  std::vector<std::string> class_names;
  std::string layout = "auto";
  std::string float_range = "auto";
  std::string given_labels;
  std::string relabel;
  std::string test_from = "auto";
  double test_share = 0.2;
  std::string test_path;
  std::int64_t image_size = 0;
  std::int64_t train_limit = 0;
  std::int64_t test_limit = 0;
  std::vector<double> mean;
  std::vector<double> std;
  std::string augment = "auto";
  std::int64_t crop = 0;
  // The synthetic set.
  std::int64_t samples = 10'000;
  std::int64_t test_samples = 2'000;
  std::int64_t classes = 10;
  std::int64_t channels = 1;
  std::int64_t size = 28;
  double difficulty = 0.3;
  std::uint64_t seed = 1;
  // The parameters that the chosen set declares itself, with their values; see DataSource.
  Json own = Json::object();
};

// Those of all sets.
Params declare(DataOptions& options);

}  // namespace winnow
