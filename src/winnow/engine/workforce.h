// Who does the work of a run, and with what.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace winnow {

// How products are computed on a GPU; a CPU always uses float32.
enum class Precision {
  fp32,
  tf32,  // float32 with tensor cores, 10 bits of mantissa in products
  bf16,  // bfloat16 training over float32 master weights; scoring as tf32
};

struct Workforce {
  std::string engine = "local";
  std::int64_t ranks = 1;           // processes
  std::int64_t lanes = 1;           // of all of them
  std::int64_t bytes_received = 0;  // by the process that leads, from the others
  // Of the process that leads:
  std::int64_t own_lanes = 1;
  bool settled = true;  // false while the best number of lanes is still looked for
  at::Device device = at::kCPU;
  Precision precision = Precision::fp32;
};

}  // namespace winnow
