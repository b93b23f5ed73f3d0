#include "winnow/method/unit_rows.h"

#include <ATen/ATen.h>

namespace winnow {

at::Tensor unit_rows(const at::Tensor& rows) {
  const at::Tensor length = rows.norm(2, 1, /*keepdim=*/true);
  return rows.div(length.clamp_min(kNoLength)).mul(length.gt(kNoLength));
}

}  // namespace winnow
