#include "winnow/model/layers.h"

#include <ATen/ATen.h>

#include <utility>

#include "winnow/model/cpu/cpu_layers.h"
#include "winnow/model/gpu/gpu_norm.h"
#include "winnow/model/init.h"

namespace winnow {
namespace {

constexpr double kBatchNormEps = 1e-5;
constexpr double kBatchNormMomentum = 0.1;

// ATen takes an undefined tensor for "none".
at::Tensor or_none(const at::Tensor* tensor) {
  return tensor ? *tensor : at::Tensor();
}

bool uses_batch_statistics(const BatchNorm& norm, const Pass& pass) {
  return pass.training || norm.running_mean == nullptr;
}

NormCall norm_call(const BatchNorm& norm, const AfterNorm& after, const at::Tensor* shift) {
  return {.weight = *norm.weight,
          .bias = *norm.bias,
          .shift = or_none(shift),
          .residual = or_none(after.residual),
          .running_mean = or_none(norm.running_mean),
          .running_var = or_none(norm.running_var),
          .momentum = kBatchNormMomentum,
          .eps = kBatchNormEps,
          .relu = after.relu,
          .pool = after.pool};
}

at::Tensor layer_by_layer(const BatchNorm& norm, const at::Tensor& x, const Pass& pass,
                          const AfterNorm& after) {
  at::Tensor y = norm(x, pass);
  if (after.residual != nullptr) {
    y.add_(*after.residual);
  }
  if (after.relu && after.pool) {
    return relu_pool(y);
  }
  y = after.relu ? relu_in_place(y) : y;
  return after.pool ? max_pool(y, 2) : y;
}

}  // namespace

Conv::Conv(Weights& weights, const std::string& name, const ConvShape& shape)
    : Conv(weights, name, shape, init::fan_in_uniform(shape.fan_in()),
           init::fan_in_uniform(shape.fan_in())) {}

Conv::Conv(Weights& weights, const std::string& name, const ConvShape& shape, Init weight_init,
           Init bias_init)
    : weight(weights.add(name + ".weight",
                         {shape.out, shape.in / shape.groups, shape.kernel, shape.kernel},
                         std::move(weight_init))),
      stride(shape.stride),
      padding(shape.padding),
      groups(shape.groups) {
  if (shape.bias) {
    bias = weights.add(name + ".bias", {shape.out}, std::move(bias_init));
  }
}

at::Tensor Conv::operator()(const at::Tensor& x, const Pass& /*pass*/) const {
  return at::conv2d(x, *weight, or_none(bias), stride, padding, 1, groups);
}

at::Tensor Conv::without_bias(const at::Tensor& x) const {
  return at::conv2d(x, *weight, {}, stride, padding, 1, groups);
}

Linear::Linear(Weights& weights, const std::string& name, std::int64_t in, std::int64_t out)
    : Linear(weights, name, in, out, init::fan_in_uniform(in), init::fan_in_uniform(in)) {}

Linear::Linear(Weights& weights, const std::string& name, std::int64_t in, std::int64_t out,
               Init weight_init, Init bias_init)
    : weight(weights.add(name + ".weight", {out, in}, std::move(weight_init))),
      bias(weights.add(name + ".bias", {out}, std::move(bias_init))) {}

at::Tensor Linear::operator()(const at::Tensor& x, const Pass& /*pass*/) const {
  return at::linear(x, *weight, *bias);
}

BatchNorm::BatchNorm(Weights& weights, const std::string& name, std::int64_t channels,
                     Statistics statistics)
    : weight(weights.add(name + ".weight", {channels}, init::ones(), SlotKind::parameter, true)),
      bias(weights.add(name + ".bias", {channels}, init::zeros(), SlotKind::parameter, true)) {
  if (statistics == Statistics::running) {
    running_mean = weights.add(name + ".running_mean", {channels}, init::zeros(), SlotKind::buffer);
    running_var = weights.add(name + ".running_var", {channels}, init::ones(), SlotKind::buffer);
    weights.add(name + ".num_batches_tracked", {}, init::zeros(), SlotKind::counter);
  }
}

at::Tensor BatchNorm::operator()(const at::Tensor& x, const Pass& pass) const {
  return at::batch_norm(x, *weight, *bias, or_none(running_mean), or_none(running_var),
                        uses_batch_statistics(*this, pass), kBatchNormMomentum, kBatchNormEps,
                        /*cudnn_enabled=*/true);
}

at::Tensor norm_act(const BatchNorm& norm, const at::Tensor& x, const Pass& pass,
                    const AfterNorm& after) {
  if (x.is_cuda() && uses_batch_statistics(norm, pass)) {
    const NormCall call = norm_call(norm, after, nullptr);
    if (has_gpu_norm(x, call)) {
      return gpu_norm(x, call);
    }
  }
  return layer_by_layer(norm, x, pass, after);
}

at::Tensor conv_norm_act(const Conv& conv, const BatchNorm& norm, const at::Tensor& x,
                         const Pass& pass, const AfterNorm& after) {
  if (conv.bias == nullptr || !x.is_cuda() || !uses_batch_statistics(norm, pass)) {
    return norm_act(norm, conv(x, pass), pass, after);
  }
  const at::Tensor y = conv.without_bias(x);
  const NormCall call = norm_call(norm, after, conv.bias);
  if (has_gpu_norm(y, call)) {
    return gpu_norm(y, call);
  }
  return layer_by_layer(norm, y + conv.bias->view({1, -1, 1, 1}), pass, after);
}

LayerNorm::LayerNorm(Weights& weights, const std::string& name, std::int64_t width, double eps)
    : weight(weights.add(name + ".weight", {width}, init::ones())),
      bias(weights.add(name + ".bias", {width}, init::zeros())),
      eps(eps) {}

at::Tensor LayerNorm::operator()(const at::Tensor& x, const Pass& /*pass*/) const {
  return at::layer_norm(x, weight->sizes(), *weight, *bias, eps);
}

at::Tensor dropout(const at::Tensor& x, double rate, const Pass& pass) {
  if (!pass.training || pass.dropout == nullptr || rate <= 0.0) {
    return x;
  }
  const double keep = 1.0 - rate;
  if (x.is_cuda()) {  // one kernel instead of three
    return std::get<0>(at::_fused_dropout(x, keep, *pass.dropout));
  }
  return x * at::empty_like(x).bernoulli_(keep, *pass.dropout).div_(keep);
}

at::Tensor relu_in_place(const at::Tensor& x) {
  return x.relu_();
}

at::Tensor max_pool(const at::Tensor& x, std::int64_t size) {
  return at::max_pool2d(x, {size, size});
}

at::Tensor relu_pool(const at::Tensor& x) {
  return has_cpu_relu_pool(x) ? cpu_relu_pool(x) : max_pool(relu_in_place(x), 2);
}

at::Tensor conv_relu_pool(const Conv& conv, const at::Tensor& x, const Pass& pass) {
  if (conv.stride == 1 && conv.groups == 1 &&
      has_cpu_conv_relu_pool(x, *conv.weight, or_none(conv.bias))) {
    return cpu_conv_relu_pool(x, *conv.weight, *conv.bias, conv.padding);
  }
  return relu_pool(conv(x, pass));
}

at::Tensor adaptive_average_pool(const at::Tensor& x, std::int64_t size) {
  const std::int64_t height = x.size(2);
  const std::int64_t width = x.size(3);
  if (height == size && width == size) {
    return x;
  }
  if (height == 1 && width == 1) {  // on a GPU the general kernel adds gradients in any order
    return x.expand({-1, -1, size, size});
  }
  return at::adaptive_avg_pool2d(x, {size, size});
}

at::Tensor channels_together(const at::Tensor& images) {
  if (!images.is_cpu()) {
    return images;
  }
  // Not contiguous(): with one channel that hands the images through as they are.
  return at::empty(images.sizes(), images.options(), at::MemoryFormat::ChannelsLast).copy_(images);
}

at::Tensor global_average_pool(const at::Tensor& x) {
  return x.mean({2, 3});
}

}  // namespace winnow
