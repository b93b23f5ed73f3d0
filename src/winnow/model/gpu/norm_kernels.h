// Batch normalisation with what comes before and after it (a convolution's bias, a residual, a
// ReLU, a 2x2 max-pool) as one kernel forward and one backward. Plain pointers into device memory;
// images lie as [images, height, width, channels]. Everything is enqueued on the given stream (a
// cudaStream_t) and nothing waits. Sums are taken in an order that follows from the shape alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace winnow::gpu {

using StreamHandle = void*;

struct NormShape {
  std::int32_t images = 0;
  std::int32_t height = 0;
  std::int32_t width = 0;
  std::int32_t channels = 0;  // a multiple of what 16 bytes hold
  bool low = false;           // values are bfloat16, else float32
  bool relu = false;
  bool pool = false;   // after the ReLU; a last odd row or column counts in the statistics only
  bool split = false;  // two kernels even where one would do
};

// Values are aligned to 16 bytes. Parameters and statistics are float32.
struct NormJob {
  NormShape shape;
  const void* x = nullptr;
  const void* shift = nullptr;     // added to x before, as wide as x; null: nothing
  const void* residual = nullptr;  // added before the ReLU; null: nothing. Not with a pool
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* running_mean = nullptr;  // moved in place; null: none
  float* running_var = nullptr;
  float momentum = 0.0F;
  float eps = 0.0F;
  void* y = nullptr;
  float* statistics = nullptr;  // [2, channels]: mean of x without the shift, 1 / deviation
  float* scratch = nullptr;     // norm_scratch() values
};
void norm_forward(const NormJob& job, StreamHandle stream);

struct NormGradientJob {
  NormShape shape;
  const void* x = nullptr;
  const void* y = nullptr;  // read where there was a residual; null: there was none
  const void* upstream = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  const float* statistics = nullptr;
  void* of_x = nullptr;
  void* of_residual = nullptr;  // null: not asked for
  void* of_shift = nullptr;     // gets zeros, which is what it is; null: not asked for
  float* of_weight = nullptr;
  float* of_bias = nullptr;
  float* scratch = nullptr;  // norm_scratch() values
};
void norm_backward(const NormGradientJob& job, StreamHandle stream);

// Float32 values that a call needs for sums of parts; 0 where it is one kernel.
std::size_t norm_scratch(const NormShape& shape);

}  // namespace winnow::gpu
