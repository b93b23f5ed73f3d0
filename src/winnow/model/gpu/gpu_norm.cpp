#include "winnow/model/gpu/gpu_norm.h"

#if WINNOW_WITH_CUDA

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "winnow/model/gpu/norm_kernels.h"

namespace winnow {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kVectorBytes = 16;
constexpr std::int64_t kPool = 2;

bool takes_library_kernels() {
  static const bool asked = [] {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing sets variables
    const char* value = std::getenv("WINNOW_GPU_KERNELS");
    return value != nullptr && std::string_view(value) == "library";
  }();
  return asked;
}

bool is_aligned(const at::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % kVectorBytes == 0;
}

// The tensor as the kernels read it.
at::Tensor readable(const at::Tensor& tensor) {
  const at::Tensor together = tensor.contiguous(at::MemoryFormat::ChannelsLast);
  return is_aligned(together) ? together : together.clone(at::MemoryFormat::Preserve);
}

bool is_row_of_floats(const at::Tensor& tensor, std::int64_t size) {
  return tensor.scalar_type() == at::kFloat && tensor.is_contiguous() && tensor.numel() == size;
}

float* floats_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
}

const void* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}

gpu::NormShape shape_of_map(const at::Tensor& x, bool relu, bool pool, bool split) {
  gpu::NormShape shape;
  shape.images = static_cast<std::int32_t>(x.size(0));
  shape.channels = static_cast<std::int32_t>(x.size(1));
  shape.height = static_cast<std::int32_t>(x.size(2));
  shape.width = static_cast<std::int32_t>(x.size(3));
  shape.low = x.scalar_type() == at::kBFloat16;
  shape.relu = relu;
  shape.pool = pool;
  shape.split = split;
  return shape;
}

at::Tensor scratch_for(const gpu::NormShape& shape, const at::Tensor& like) {
  const auto size = static_cast<std::int64_t>(gpu::norm_scratch(shape));
  return size == 0 ? at::Tensor() : at::empty({size}, like.options().dtype(at::kFloat));
}

// Tensors with gradients are arguments of their own; where there is none, `weight` stands in, since
// the library wants all of them defined.
struct FusedNorm : torch::autograd::Function<FusedNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& shift,
                            const at::Tensor& residual, const NormCall* call) {
    const bool has_shift = call->shift.defined();
    const bool has_residual = call->residual.defined();
    gpu::NormJob job;
    job.shape = shape_of_map(x, call->relu, call->pool, call->split);
    at::Tensor y = call->pool
                       ? at::empty({x.size(0), x.size(1), x.size(2) / kPool, x.size(3) / kPool},
                                   x.options(), at::MemoryFormat::ChannelsLast)
                       : at::empty(x.sizes(), x.options(), at::MemoryFormat::ChannelsLast);
    const at::Tensor statistics = at::empty({2, x.size(1)}, x.options().dtype(at::kFloat));
    const at::Tensor scratch = scratch_for(job.shape, x);
    job.x = x.data_ptr();
    job.shift = has_shift ? shift.data_ptr() : nullptr;
    job.residual = has_residual ? residual.data_ptr() : nullptr;
    job.weight = weight.data_ptr<float>();
    job.bias = bias.data_ptr<float>();
    job.running_mean = floats_or_null(call->running_mean);
    job.running_var = floats_or_null(call->running_var);
    job.momentum = static_cast<float>(call->momentum);
    job.eps = static_cast<float>(call->eps);
    job.y = y.data_ptr();
    job.statistics = statistics.data_ptr<float>();
    job.scratch = floats_or_null(scratch);
    gpu::norm_forward(job, at::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    context->saved_data["relu"] = call->relu;
    context->saved_data["pool"] = call->pool;
    context->saved_data["split"] = call->split;
    context->saved_data["shift"] = has_shift;
    context->saved_data["residual"] = has_residual;
    // Without a residual the ReLU's mask follows from x.
    if (has_residual && call->relu) {
      context->save_for_backward({x, weight, bias, statistics, y});
    } else {
      context->save_for_backward({x, weight, bias, statistics});
    }
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const bool relu = context->saved_data["relu"].toBool();
    const bool has_residual = context->saved_data["residual"].toBool();
    const at::Tensor gradient = readable(upstream[0].to(x.scalar_type()));
    gpu::NormGradientJob job;
    job.shape = shape_of_map(x, relu, context->saved_data["pool"].toBool(),
                             context->saved_data["split"].toBool());
    const at::Tensor of_x = at::empty(x.sizes(), x.options(), at::MemoryFormat::ChannelsLast);
    const at::Tensor of_weight = at::empty_like(saved[1]);
    const at::Tensor of_bias = at::empty_like(saved[2]);
    const at::Tensor scratch = scratch_for(job.shape, x);
    at::Tensor of_shift;
    at::Tensor of_residual;
    if (context->saved_data["shift"].toBool()) {
      of_shift = at::empty({x.size(1)}, x.options());
    }
    if (has_residual) {
      of_residual =
          relu ? at::empty(x.sizes(), x.options(), at::MemoryFormat::ChannelsLast) : gradient;
    }
    job.x = x.data_ptr();
    job.y = saved.size() > 4 ? saved[4].data_ptr() : nullptr;
    job.upstream = gradient.data_ptr();
    job.weight = saved[1].data_ptr<float>();
    job.bias = saved[2].data_ptr<float>();
    job.statistics = saved[3].data_ptr<float>();
    job.of_x = of_x.data_ptr();
    job.of_residual = has_residual && relu ? of_residual.data_ptr() : nullptr;
    job.of_shift = of_shift.defined() ? of_shift.data_ptr() : nullptr;
    job.of_weight = of_weight.data_ptr<float>();
    job.of_bias = of_bias.data_ptr<float>();
    job.scratch = floats_or_null(scratch);
    gpu::norm_backward(job, at::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {of_x, of_weight, of_bias, of_shift, of_residual, at::Tensor()};
  }
};

}  // namespace

bool has_gpu_norm(const at::Tensor& x, const NormCall& call) {
  if (!x.is_cuda() || x.dim() != 4 || x.numel() == 0 || takes_library_kernels()) {
    return false;
  }
  const bool low = x.scalar_type() == at::kBFloat16;
  const std::int64_t channels = x.size(1);
  const auto fits = [&](const at::Tensor& row) {
    return !row.defined() || is_row_of_floats(row, channels);
  };
  return (low || x.scalar_type() == at::kFloat) &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast) && is_aligned(x) &&
         channels * x.element_size() % kVectorBytes == 0 &&
         x.numel() <= std::numeric_limits<std::int32_t>::max() &&
         (!call.pool || (x.size(2) >= kPool && x.size(3) >= kPool)) && fits(call.weight) &&
         fits(call.bias) && fits(call.running_mean) && fits(call.running_var) &&
         (!call.shift.defined() ||
          (call.shift.scalar_type() == x.scalar_type() && call.shift.is_contiguous() &&
           call.shift.numel() == channels)) &&
         (!call.residual.defined() ||
          (!call.pool && call.residual.scalar_type() == x.scalar_type() &&
           call.residual.sizes() == x.sizes()));
}

at::Tensor gpu_norm(const at::Tensor& x, const NormCall& call) {
  const at::Tensor shift = call.shift.defined() ? call.shift : call.weight;
  const at::Tensor residual = call.residual.defined() ? readable(call.residual) : call.weight;
  return FusedNorm::apply(x, call.weight, call.bias, shift, residual, &call);
}

}  // namespace winnow

#else

#include "winnow/base/error.h"

namespace winnow {

bool has_gpu_norm(const at::Tensor& /*x*/, const NormCall& /*call*/) {
  return false;
}

at::Tensor gpu_norm(const at::Tensor& /*x*/, const NormCall& /*call*/) {
  throw Error(ErrorKind::internal, "this build has no CUDA");
}

}  // namespace winnow

#endif
