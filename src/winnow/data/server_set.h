// What the server of a real federation has of the data, in one archive.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "winnow/data/data_set.h"
#include "winnow/data/npz.h"

namespace winnow {

// Samples to test and to validate with, images that everybody has, and none to train on.
struct ServerSet {
  DataSet set;
  at::Tensor public_images = {};  // bytes, shaped as the others; undefined where there are none
};

// Reads the arrays test_images and test_labels, and where they are there validation_images,
// validation_labels, public_images and class_names. `class_names`: instead of the archive's, which
// are numbers where neither has any. Throws Error(kind data).
ServerSet read_server_set(const std::filesystem::path& place,
                          const std::vector<std::string>& class_names, const ArrayOptions& arrays);

// "0", "1", ..., up to as many as a set may have classes.
std::vector<std::string> numbers_up_to(std::int64_t count);

}  // namespace winnow
