// Saved state: named tensors and values. What a method's server side and a client's memory put into
// a checkpoint. Tensors are held by reference, so they must not be changed in place after saving.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "winnow/base/params.h"

namespace winnow {

struct Archive {
  std::map<std::string, at::Tensor> tensors;
  Json values = Json::object();
};

}  // namespace winnow
