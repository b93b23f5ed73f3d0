// IDX, the format of MNIST and Fashion-MNIST: big-endian header, then unsigned bytes. Files may be
// compressed with gzip, which is told by their first two bytes, not by their name.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "winnow/data/data_set.h"

namespace winnow {

// uint8 [count, 1, height, width]. Throws Error(kind data) naming the file and the byte where it is
// damaged, without ever allocating more than the file can hold.
at::Tensor read_idx_images(const std::filesystem::path& path);

// Labels of 0..classes-1; a label outside is an error naming the sample and its byte.
Labels read_idx_labels(const std::filesystem::path& path, std::int64_t classes);

// Images with labels; their counts must agree.
Samples read_idx_samples(const std::filesystem::path& images, const std::filesystem::path& labels,
                         std::int64_t classes);

// The names that the image file of a part ("train" or "t10k") is known under.
std::vector<std::string> idx_image_names(const std::string& part);

// The four files of an MNIST-like folder. Fills train, test and classes only.
DataSet read_idx_folder(const std::filesystem::path& folder, std::int64_t classes);

}  // namespace winnow
