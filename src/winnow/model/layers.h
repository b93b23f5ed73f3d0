// The layers that networks are made of. A layer is a small value that points at its tensors inside
// a Weights object, which must outlive it; constructing one declares these tensors under `name`. No
// layer waits for the device or looks at values, so any network can be captured in a CUDA graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "winnow/model/net.h"

namespace winnow {

struct ConvShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t groups = 1;
  bool bias = true;

  std::int64_t fan_in() const { return in / groups * kernel * kernel; }
  std::int64_t fan_out() const { return out * kernel * kernel; }
};

// A 2-d convolution with a square kernel: "name.weight" and, with a bias, "name.bias".
struct Conv {
  // PyTorch's default initial values.
  Conv(Weights& weights, const std::string& name, const ConvShape& shape);
  Conv(Weights& weights, const std::string& name, const ConvShape& shape, Init weight_init,
       Init bias_init);
  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const;
  at::Tensor without_bias(const at::Tensor& x) const;

  const at::Tensor* weight = nullptr;
  const at::Tensor* bias = nullptr;  // null without a bias
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t groups = 1;
};

// A linear map of the last dimension with a bias: "name.weight" [out, in] and "name.bias" [out].
struct Linear {
  // PyTorch's default initial values.
  Linear(Weights& weights, const std::string& name, std::int64_t in, std::int64_t out);
  Linear(Weights& weights, const std::string& name, std::int64_t in, std::int64_t out,
         Init weight_init, Init bias_init);
  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const;

  const at::Tensor* weight = nullptr;
  const at::Tensor* bias = nullptr;
};

// Which statistics normalise outside of training.
enum class Statistics {
  running,  // those collected in training
  batch,    // those of the batch at hand, in training and outside
};

// Affine batch normalisation with eps 1e-5 and momentum 0.1. With running statistics it updates
// "name.running_mean" and "name.running_var" in place when training, and it declares, but does not
// count, "name.num_batches_tracked": whoever takes the step adds one to all counters of the state.
struct BatchNorm {
  BatchNorm(Weights& weights, const std::string& name, std::int64_t channels,
            Statistics statistics = Statistics::running);
  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const;

  const at::Tensor* weight = nullptr;
  const at::Tensor* bias = nullptr;
  const at::Tensor* running_mean = nullptr;  // null with Statistics::batch
  const at::Tensor* running_var = nullptr;
};

// What follows a batch normalisation.
struct AfterNorm {
  const at::Tensor* residual = nullptr;  // added first; not with a pool
  bool relu = true;
  bool pool = false;  // over 2x2 windows
};

// Normalisation and what follows it. Like the layers one after the other, but on a GPU one kernel
// where batch statistics are used. May write into `x`: only for fresh results that nothing else
// reads.
at::Tensor norm_act(const BatchNorm& norm, const at::Tensor& x, const Pass& pass,
                    const AfterNorm& after = {});
// The same of a convolution's result, whose bias the normalisation takes away again.
at::Tensor conv_norm_act(const Conv& conv, const BatchNorm& norm, const at::Tensor& x,
                         const Pass& pass, const AfterNorm& after = {});

// Affine normalisation of the last dimension.
struct LayerNorm {
  LayerNorm(Weights& weights, const std::string& name, std::int64_t width, double eps);
  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const;

  const at::Tensor* weight = nullptr;
  const at::Tensor* bias = nullptr;
  double eps = 1e-5;
};

// Zeroes values with probability `rate` and scales the others by 1/(1-rate); hands `x` through when
// the pass is not training or names no generator.
at::Tensor dropout(const at::Tensor& x, double rate, const Pass& pass);

// ReLU in the place of `x`: only for fresh results of a layer that nothing else reads.
at::Tensor relu_in_place(const at::Tensor& x);

// Maximum over disjoint windows of size x size.
at::Tensor max_pool(const at::Tensor& x, std::int64_t size);

// ReLU, and the maximum over disjoint windows of 2x2; may write into `x`, as relu_in_place().
at::Tensor relu_pool(const at::Tensor& x);
// The same of a convolution's result.
at::Tensor conv_relu_pool(const Conv& conv, const at::Tensor& x, const Pass& pass);

// Means over size x size windows that cover a map of any size evenly, and overlap where it is
// smaller: a single value is repeated everywhere. A map of that size is handed through.
at::Tensor adaptive_average_pool(const at::Tensor& x, std::int64_t size);

// The same images with the channels of a pixel side by side, for the networks that
// docs/performance.md shows to be faster that way on a CPU; a GPU gets images as its trainer lays
// them out.
at::Tensor channels_together(const at::Tensor& images);

// The mean over height and width: [batch, channels, height, width] to [batch, channels].
at::Tensor global_average_pool(const at::Tensor& x);

}  // namespace winnow
