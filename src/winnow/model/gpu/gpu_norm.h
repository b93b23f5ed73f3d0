// Batch normalisation on a GPU together with what surrounds it, as one kernel forward and one
// backward: small networks are bound by the number of kernels of a step, large ones by the times
// that they read their feature maps.
#pragma once

#include <ATen/core/Tensor.h>

namespace winnow {

// relu(norm(x + shift) + residual), pooled over 2x2 windows. Undefined tensors are left out.
struct NormCall {
  at::Tensor weight;             // float32
  at::Tensor bias;               // float32
  at::Tensor shift = {};         // of each channel, as wide as x: it only moves the running mean
  at::Tensor residual = {};      // like x; not with a pool
  at::Tensor running_mean = {};  // moved in place, as running_var
  at::Tensor running_var = {};
  double momentum = 0.1;
  double eps = 1e-5;
  bool relu = false;
  bool pool = false;   // the last odd row or column counts in the statistics only
  bool split = false;  // the kernels for maps too large for one; for tests
};

// Whether gpu_norm() takes maps like that: float32 or bfloat16, channels side by side, a multiple
// of four channels in float32 and of eight in bfloat16, in a build with CUDA.
// WINNOW_GPU_KERNELS=library in the environment says no to all, to compare with the library's.
bool has_gpu_norm(const at::Tensor& x, const NormCall& call);

// Normalises with the statistics of the batch. Differentiable once; the gradient of `shift` is
// zero.
at::Tensor gpu_norm(const at::Tensor& x, const NormCall& call);

}  // namespace winnow
