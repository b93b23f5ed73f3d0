// Small matrices for tests of losses.
#pragma once

#include <ATen/ATen.h>

#include <initializer_list>
#include <vector>

namespace winnow {

inline at::Tensor rows_of(std::initializer_list<std::vector<float>> rows) {
  std::vector<at::Tensor> tensors;
  for (const std::vector<float>& row : rows) {
    tensors.push_back(at::tensor(row));
  }
  return at::stack(tensors);
}

}  // namespace winnow
