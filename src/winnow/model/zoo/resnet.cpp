// Residual networks: the CIFAR form of FedCorr and FedNS (spec: label-noise A.2; input-noise 1.9)
// and torchvision's ResNet-50. Tensor names are torchvision's in both.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "winnow/model/init.h"
#include "winnow/model/layers.h"
#include "winnow/model/zoo/families.h"

namespace winnow {
namespace {

// A convolution without bias, the normalisation after it, and a ReLU.
struct ConvNorm {
  Conv conv;
  BatchNorm norm;

  at::Tensor operator()(const at::Tensor& x, const Pass& pass, const AfterNorm& after = {}) const {
    return conv_norm_act(conv, norm, x, pass, after);
  }
};

enum class Values { pytorch, torchvision };

ConvNorm conv_norm(Weights& weights, const std::string& conv, const std::string& norm,
                   ConvShape shape, Values values) {
  shape.bias = false;
  const Init init = values == Values::pytorch ? init::fan_in_uniform(shape.fan_in())
                                              : init::kaiming_normal(shape.fan_out());
  Conv convolution(weights, conv, shape, init, {});
  return {convolution, BatchNorm(weights, norm, shape.out)};
}

// The 1x1 convolution on the way past a block whose output has another shape than its input.
std::optional<ConvNorm> shortcut(Weights& weights, const std::string& block, std::int64_t in,
                                 std::int64_t out, std::int64_t stride, Values values) {
  if (stride == 1 && in == out) {
    return std::nullopt;
  }
  return conv_norm(weights, block + ".downsample.0", block + ".downsample.1",
                   {.in = in, .out = out, .kernel = 1, .stride = stride}, values);
}

// A residual block: its convolutions in order, a ReLU between them and after the sum.
class ResidualBlock {
 public:
  // Two 3x3 convolutions.
  static ResidualBlock basic(Weights& weights, const std::string& name, std::int64_t in,
                             std::int64_t width, std::int64_t stride) {
    return {weights,
            name,
            stride,
            {{.in = in, .out = width, .kernel = 3, .stride = stride, .padding = 1},
             {.in = width, .out = width, .kernel = 3, .padding = 1}},
            Values::pytorch};
  }

  // 1x1, 3x3 (which carries the stride), 1x1 to four times the width.
  static ResidualBlock bottleneck(Weights& weights, const std::string& name, std::int64_t in,
                                  std::int64_t width, std::int64_t stride) {
    return {weights,
            name,
            stride,
            {{.in = in, .out = width, .kernel = 1},
             {.in = width, .out = width, .kernel = 3, .stride = stride, .padding = 1},
             {.in = width, .out = 4 * width, .kernel = 1}},
            Values::torchvision};
  }

  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const {
    at::Tensor y = x;
    for (std::size_t step = 0; step + 1 < steps_.size(); ++step) {
      y = steps_[step](y, pass);
    }
    const at::Tensor past = shortcut_ ? (*shortcut_)(x, pass, {.relu = false}) : x;
    return steps_.back()(y, pass, {.residual = &past});
  }

 private:
  ResidualBlock(Weights& weights, const std::string& name, std::int64_t stride,
                const std::vector<ConvShape>& shapes, Values values) {
    for (std::size_t step = 0; step < shapes.size(); ++step) {
      steps_.push_back(conv_norm(weights, fmt::format("{}.conv{}", name, step + 1),
                                 fmt::format("{}.bn{}", name, step + 1), shapes[step], values));
    }
    shortcut_ = shortcut(weights, name, shapes.front().in, shapes.back().out, stride, values);
  }

  std::vector<ConvNorm> steps_;
  std::optional<ConvNorm> shortcut_;
};

using MakeBlock = ResidualBlock (*)(Weights&, const std::string&, std::int64_t, std::int64_t,
                                    std::int64_t);

// The four stages of widths 64 to 512; all but the first halve the map.
std::vector<ResidualBlock> stages(Weights& weights, const std::vector<int>& depths, MakeBlock make,
                                  std::int64_t expansion) {
  std::vector<ResidualBlock> blocks;
  std::int64_t in = 64;
  std::int64_t width = 64;
  for (std::size_t stage = 0; stage < depths.size(); ++stage, width *= 2) {
    for (int index = 0; index < depths[stage]; ++index) {
      const std::int64_t stride = stage > 0 && index == 0 ? 2 : 1;
      blocks.push_back(
          make(weights, fmt::format("layer{}.{}", stage + 1, index), in, width, stride));
      in = width * expansion;
    }
  }
  return blocks;
}

// 3x3 stem, no pooling before the stages, global average pooling after them, which at 32 pixels
// equals the 4x4 pooling of the original.
class CifarResNet final : public Net {
 public:
  CifarResNet(const NetShape& shape, const std::vector<int>& depths)
      : stem_(conv_norm(weights_, "conv1", "bn1",
                        {.in = shape.channels, .out = 64, .kernel = 3, .padding = 1},
                        Values::pytorch)),
        blocks_(stages(weights_, depths, ResidualBlock::basic, 1)) {
    declare_head("fc", 512, shape.classes, init::fan_in_uniform(512), init::fan_in_uniform(512));
  }

  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    at::Tensor x = stem_(images, pass);
    for (const ResidualBlock& block : blocks_) {
      x = block(x, pass);
    }
    return global_average_pool(x);
  }

 private:
  ConvNorm stem_;
  std::vector<ResidualBlock> blocks_;
};

class ResNet50 final : public Net {
 public:
  explicit ResNet50(const NetShape& shape)
      : stem_(conv_norm(weights_, "conv1", "bn1",
                        {.in = shape.channels, .out = 64, .kernel = 7, .stride = 2, .padding = 3},
                        Values::torchvision)),
        blocks_(stages(weights_, {3, 4, 6, 3}, ResidualBlock::bottleneck, 4)) {
    declare_head("fc", 2048, shape.classes, init::fan_in_uniform(2048), init::fan_in_uniform(2048));
  }

  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    at::Tensor x = at::max_pool2d(stem_(images, pass), {3, 3}, {2, 2}, {1, 1});
    for (const ResidualBlock& block : blocks_) {
      x = block(x, pass);
    }
    return global_average_pool(x);
  }

 private:
  ConvNorm stem_;
  std::vector<ResidualBlock> blocks_;
};

std::unique_ptr<Net> make_resnet18(const NetShape& shape) {
  require_size("resnet18", shape, 9);
  return std::make_unique<CifarResNet>(shape, std::vector<int>{2, 2, 2, 2});
}

std::unique_ptr<Net> make_resnet34(const NetShape& shape) {
  require_size("resnet34", shape, 9);
  return std::make_unique<CifarResNet>(shape, std::vector<int>{3, 4, 6, 3});
}

std::unique_ptr<Net> make_resnet50(const NetShape& shape) {
  return std::make_unique<ResNet50>(shape);
}

}  // namespace

std::vector<NetInfo> resnet_nets() {
  return {{"resnet18",
           "ResNet-18 in the CIFAR form: 3x3 stem, no max-pool",
           {10, 3, 32, 32},
           0,
           make_resnet18},
          {"resnet34",
           "ResNet-34 in the CIFAR form: 3x3 stem, no max-pool",
           {100, 3, 32, 32},
           0,
           make_resnet34},
          {"resnet50",
           "torchvision's ResNet-50; images are resized to 224x224",
           {1000, 3, kImageNetSize, kImageNetSize},
           kImageNetSize,
           make_resnet50}};
}

}  // namespace winnow
