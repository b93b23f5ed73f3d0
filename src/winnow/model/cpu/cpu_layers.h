// Layers that follow each other as one step on a CPU: small networks spend more time between
// kernels than in them. The same bits as layer by layer; both are differentiable once.
// WINNOW_CPU_KERNELS=library in the environment says no to them, to compare with the library's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace winnow {

// Whether cpu_relu_pool() takes it: float32, channels side by side, on a CPU with AVX2.
bool has_cpu_relu_pool(const at::Tensor& x);
// max_pool(relu(x)) over disjoint 2x2 windows.
at::Tensor cpu_relu_pool(const at::Tensor& x);

// Whether cpu_conv_relu_pool() takes it: likewise, with a square kernel above 3, for which ATen
// takes oneDNN's whatever the batch, in a build with oneDNN.
bool has_cpu_conv_relu_pool(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
// max_pool(relu(conv(x))) with stride 1.
at::Tensor cpu_conv_relu_pool(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              std::int64_t padding);

}  // namespace winnow
