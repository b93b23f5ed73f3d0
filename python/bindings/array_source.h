// A data set whose images and labels a Python program has in memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "winnow/data/catalog.h"

namespace winnow::python {

// What `[data] name` says for it.
inline constexpr const char* kPythonData = "python";

struct Arrays {
  Samples train;
  std::vector<std::string> clients = {};  // of each training sample; empty: nobody's yet
  std::optional<Samples> test = {};
  // Of all of this, in hexadecimal: a run is resumed with the data it was started with.
  std::string digest = {};
};

std::string digest_of(const Arrays& arrays);
std::int64_t number_of_clients(const Arrays& arrays);

// The entry of a catalog. Without arrays it can be named but not loaded.
DataSetInfo python_data(std::shared_ptr<const Arrays> arrays);

}  // namespace winnow::python
