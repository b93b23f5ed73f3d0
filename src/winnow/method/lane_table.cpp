#include "winnow/method/lane_table.h"

#include <ATen/ATen.h>

namespace winnow {

at::Tensor lane_table(Lane& lane, const std::string& name, const at::Tensor& values) {
  const std::int64_t rows = values.size(0);
  at::Tensor buffer = lane.buffer(name, rows, values.sizes().slice(1).vec(), values.scalar_type());
  buffer.narrow(0, 0, rows).copy_(values);
  return buffer;
}

}  // namespace winnow
