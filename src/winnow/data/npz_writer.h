// Writes NumPy's .npz archives, as NpzFile reads them.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/data/data_set.h"

namespace winnow {

// Arrays by name, stored as they are. Kept in memory until they are written.
class NpzWriter {
 public:
  void add(const std::string& name, const at::Tensor& values);  // uint8 or float32, any shape
  void add(const std::string& name, const Labels& labels);      // int64 [n]
  void add(const std::string& name, const std::vector<std::string>& texts);

  // Throws Error(kind run) for more than 4 GB, which the format cannot hold, and where the file
  // cannot be written.
  void write(const std::filesystem::path& path) const;

 private:
  void add_array(const std::string& name, const std::string& descr, const std::string& shape,
                 std::string_view data);

  std::string body_;
  std::string directory_;
  std::size_t count_ = 0;
};

}  // namespace winnow
