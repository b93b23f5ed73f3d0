#include "winnow/model/cpu/cpu_layers.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdlib>
#include <string_view>

#include "winnow/base/error.h"
#include "winnow/model/cpu/conv_plan.h"
#include "winnow/model/cpu/relu_pool.h"

namespace winnow {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool takes_library_kernels() {
  static const bool asked = [] {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing sets variables
    const char* value = std::getenv("WINNOW_CPU_KERNELS");
    return value != nullptr && std::string_view(value) == "library";
  }();
  return asked;
}

bool is_float_on_cpu(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat;
}

// Allocates what the pool hands on and what it remembers.
struct Pooled {
  explicit Pooled(const MapShape& shape, const at::TensorOptions& options)
      : values(at::empty({shape.images, shape.channels, shape.height / 2, shape.width / 2}, options,
                         at::MemoryFormat::ChannelsLast)),
        winner(at::empty({shape.pooled_values()}, options.dtype(at::kInt))) {}

  void fill(const float* map, const MapShape& shape) {
    relu_pool_forward(map, shape, values.data_ptr<float>(), winner.data_ptr<std::int32_t>());
  }

  at::Tensor values;
  at::Tensor winner;
};

void hand_back_to(float* of_map, const MapShape& shape, const at::Tensor& of_pooled,
                  const at::Tensor& winner) {
  relu_pool_gradient(of_pooled.contiguous(at::MemoryFormat::ChannelsLast).data_ptr<float>(),
                     winner.data_ptr<std::int32_t>(), shape, of_map);
}

MapShape map_of(const at::Tensor& x) {
  return {.images = x.size(0), .height = x.size(2), .width = x.size(3), .channels = x.size(1)};
}

struct ReluPool : torch::autograd::Function<ReluPool> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    Pooled pooled(map_of(x), x.options());
    pooled.fill(x.data_ptr<float>(), map_of(x));
    context->save_for_backward({pooled.winner});
    context->saved_data["sizes"] = x.sizes();
    return pooled.values;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const std::vector<std::int64_t> sizes = context->saved_data["sizes"].toIntVector();
    const at::Tensor of_x = at::empty(sizes, upstream[0].options(), at::MemoryFormat::ChannelsLast);
    hand_back_to(of_x.data_ptr<float>(), map_of(of_x), upstream[0],
                 context->get_saved_variables()[0]);
    return {of_x};
  }
};

#if WINNOW_WITH_ONEDNN

constexpr std::int64_t kLargestShared = 3;  // kernels up to here ATen chooses by the batch

ConvExtent extent_of(const at::Tensor& x, const at::Tensor& weight, std::int64_t padding) {
  return {.images = x.size(0),
          .in = x.size(1),
          .height = x.size(2),
          .width = x.size(3),
          .out = weight.size(0),
          .kernel = weight.size(2),
          .padding = padding};
}

MapShape map_of(const ConvExtent& extent) {
  return {.images = extent.images,
          .height = extent.out_height(),
          .width = extent.out_width(),
          .channels = extent.out};
}

// A map between two kernels: the thread's own memory, valid until the next call on this thread.
float* between(const MapShape& shape) {
  static thread_local at::Tensor kept;
  if (!kept.defined() || kept.numel() < shape.values()) {
    kept = at::empty({shape.values()}, at::kFloat);
  }
  return kept.data_ptr<float>();
}

struct ConvReluPool : torch::autograd::Function<ConvReluPool> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, std::int64_t padding) {
    const ConvExtent extent = extent_of(x, weight, padding);
    const MapShape shape = map_of(extent);
    float* map = between(shape);
    conv_plan(extent).forward(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                              map);
    Pooled pooled(shape, x.options());
    pooled.fill(map, shape);
    context->save_for_backward({x, weight, pooled.winner});
    context->saved_data["padding"] = padding;
    return pooled.values;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const ConvExtent extent = extent_of(x, weight, context->saved_data["padding"].toInt());
    const MapShape shape = map_of(extent);
    float* of_map = between(shape);
    hand_back_to(of_map, shape, upstream[0], saved[2]);
    ConvPlan& plan = conv_plan(extent);
    const at::Tensor of_weight = at::empty(weight.sizes(), weight.options());
    const at::Tensor of_bias = at::empty({extent.out}, weight.options());
    plan.weight_gradient(x.data_ptr<float>(), of_map, of_weight.data_ptr<float>(),
                         of_bias.data_ptr<float>());
    at::Tensor of_x;
    if (context->needs_input_grad(0)) {
      of_x = at::empty(x.sizes(), x.options(), at::MemoryFormat::ChannelsLast);
      plan.input_gradient(weight.data_ptr<float>(), of_map, of_x.data_ptr<float>());
    }
    return {of_x, of_weight, of_bias, at::Tensor()};
  }
};

#endif

}  // namespace

bool has_cpu_relu_pool(const at::Tensor& x) {
  return is_float_on_cpu(x) && x.dim() == 4 && x.numel() > 0 &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast) && has_relu_pool() &&
         !takes_library_kernels();
}

at::Tensor cpu_relu_pool(const at::Tensor& x) {
  return ReluPool::apply(x);
}

#if WINNOW_WITH_ONEDNN

bool has_cpu_conv_relu_pool(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return has_cpu_relu_pool(x) && is_float_on_cpu(weight) && bias.defined() &&
         weight.size(2) > kLargestShared && weight.size(2) == weight.size(3) &&
         weight.size(1) == x.size(1) && weight.is_contiguous();
}

at::Tensor cpu_conv_relu_pool(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              std::int64_t padding) {
  return ConvReluPool::apply(x, weight, bias, padding);
}

#else

bool has_cpu_conv_relu_pool(const at::Tensor& /*x*/, const at::Tensor& /*weight*/,
                            const at::Tensor& /*bias*/) {
  return false;
}

at::Tensor cpu_conv_relu_pool(const at::Tensor& /*x*/, const at::Tensor& /*weight*/,
                              const at::Tensor& /*bias*/, std::int64_t /*padding*/) {
  throw Error(ErrorKind::internal, "this build has no oneDNN");
}

#endif

}  // namespace winnow
