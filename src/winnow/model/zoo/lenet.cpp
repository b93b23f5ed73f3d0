// spec: label-noise A.2; input-noise 2.7 for the form without padding.
#include <ATen/ATen.h>

#include <memory>

#include "winnow/model/init.h"
#include "winnow/model/layers.h"
#include "winnow/model/zoo/families.h"

namespace winnow {
namespace {

// What is left of an extent after conv5, pool, conv5, pool.
std::int64_t left_over(std::int64_t extent, std::int64_t padding) {
  return ((extent + 2 * padding - 4) / 2 - 4) / 2;
}

class LeNet final : public Net {
 public:
  LeNet(const NetShape& shape, std::int64_t padding)
      : conv1_(weights_, "conv1",
               {.in = shape.channels, .out = 6, .kernel = 5, .padding = padding}),
        conv2_(weights_, "conv2", {.in = 6, .out = 16, .kernel = 5}),
        fc1_(weights_, "fc1",
             16 * left_over(shape.height, padding) * left_over(shape.width, padding), 120),
        fc2_(weights_, "fc2", 120, 84) {
    declare_head("fc3", 84, shape.classes, init::fan_in_uniform(84), init::fan_in_uniform(84));
  }

  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    at::Tensor x = conv_relu_pool(conv1_, channels_together(images), pass);
    x = conv_relu_pool(conv2_, x, pass).flatten(1);
    x = relu_in_place(fc1_(x, pass));
    return relu_in_place(fc2_(x, pass));
  }

 private:
  Conv conv1_;
  Conv conv2_;
  Linear fc1_;
  Linear fc2_;
};

std::unique_ptr<Net> make_lenet5(const NetShape& shape) {
  require_size("lenet5", shape, 16);
  // 28 pixels were 32 with a margin, so that the flattened map stays 400.
  const bool margin = shape.height == 28 && shape.width == 28;
  return std::make_unique<LeNet>(shape, margin ? 2 : 0);
}

std::unique_ptr<Net> make_lenet5_valid(const NetShape& shape) {
  require_size("lenet5_valid", shape, 16);
  return std::make_unique<LeNet>(shape, 0);
}

}  // namespace

std::vector<NetInfo> lenet_nets() {
  return {{"lenet5",
           "LeNet-5 with ReLU and max-pooling; 28-pixel images are padded to 32",
           {10, 3, 32, 32},
           0,
           make_lenet5},
          {"lenet5_valid",
           "LeNet-5 without padding, Fed-NCL's network for MNIST",
           {10, 1, 28, 28},
           0,
           make_lenet5_valid}};
}

}  // namespace winnow
