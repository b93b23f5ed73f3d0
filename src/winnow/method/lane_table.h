// Tables that objectives read by entry or step of a plan.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "winnow/train/lane.h"

namespace winnow {

// The lane's buffer of that name, its first rows filled with `values`. It may have more rows.
at::Tensor lane_table(Lane& lane, const std::string& name, const at::Tensor& values);

}  // namespace winnow
