// Small convolution nets: FedRN's of four layers (spec: label-noise B.2) and that of the
// pfl-research benchmark of two.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <memory>

#include "winnow/model/init.h"
#include "winnow/model/layers.h"
#include "winnow/model/zoo/families.h"

namespace winnow {
namespace {

class Cnn4 final : public Net {
 public:
  explicit Cnn4(const NetShape& shape) {
    for (std::int64_t index = 0; index < 4; ++index) {
      const std::string name = fmt::format("features.{}", index);
      blocks_.push_back(
          {Conv(weights_, name + ".0",
                {.in = index == 0 ? shape.channels : kWidth, .out = kWidth, .padding = 1}),
           BatchNorm(weights_, name + ".1", kWidth, Statistics::batch)});
    }
    const std::int64_t flat = kWidth * (shape.height / 16) * (shape.width / 16);
    declare_head("linear", flat, shape.classes, init::fan_in_uniform(flat),
                 init::fan_in_uniform(flat));
  }

  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    at::Tensor x = channels_together(images);
    for (const Block& block : blocks_) {
      x = conv_norm_act(block.conv, block.norm, x, pass, {.pool = true});
    }
    return x.flatten(1);
  }

 private:
  static constexpr std::int64_t kWidth = 64;

  struct Block {
    Conv conv;
    BatchNorm norm;
  };
  std::vector<Block> blocks_;
};

// Xavier-uniform weights and zero biases everywhere.
class Cnn2 final : public Net {
 public:
  explicit Cnn2(const NetShape& shape)
      : Cnn2(shape, 64 * ((shape.height - 4) / 2) * ((shape.width - 4) / 2)) {}

  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    at::Tensor x = relu_in_place(conv1_(channels_together(images), pass));
    x = conv_relu_pool(conv2_, x, pass);
    x = dropout(x, 0.25, pass).flatten(1);
    return dropout(relu_in_place(fc1_(x, pass)), 0.5, pass);
  }

 private:
  Cnn2(const NetShape& shape, std::int64_t flat)
      : conv1_(xavier_conv("conv1", {.in = shape.channels, .out = 32})),
        conv2_(xavier_conv("conv2", {.in = 32, .out = 64})),
        fc1_(weights_, "fc1", flat, 128, init::xavier_uniform(flat, 128), init::zeros()) {
    declare_head("fc2", 128, shape.classes, init::xavier_uniform(128, shape.classes),
                 init::zeros());
  }

  Conv xavier_conv(const std::string& name, const ConvShape& shape) {
    return {weights_, name, shape, init::xavier_uniform(shape.fan_in(), shape.fan_out()),
            init::zeros()};
  }

  Conv conv1_;
  Conv conv2_;
  Linear fc1_;
};

std::unique_ptr<Net> make_cnn4(const NetShape& shape) {
  require_size("cnn4", shape, 16);
  return std::make_unique<Cnn4>(shape);
}

std::unique_ptr<Net> make_cnn2(const NetShape& shape) {
  require_size("cnn2", shape, 6);
  return std::make_unique<Cnn2>(shape);
}

}  // namespace

std::vector<NetInfo> cnn_nets() {
  return {{"cnn4",
           "FedRN's 4-conv net; always normalises with the statistics of the batch",
           {10, 3, 32, 32},
           0,
           make_cnn4},
          {"cnn2",
           "the 2-conv net of the pfl-research benchmark, with dropout",
           {10, 3, 32, 32},
           0,
           make_cnn2}};
}

}  // namespace winnow
