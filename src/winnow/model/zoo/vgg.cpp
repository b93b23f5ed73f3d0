// torchvision's VGG networks (spec: label-noise A.2) and Fed-NCL's VGG-16 for 32-pixel images
// (spec: input-noise 2.7). Tensor names and initial values are torchvision's.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "winnow/model/init.h"
#include "winnow/model/layers.h"
#include "winnow/model/zoo/families.h"

namespace winnow {
namespace {

constexpr std::int64_t kPool = 0;  // a max-pool among the widths
constexpr std::array<std::int64_t, 13> kVgg11{64,  kPool, 128,   kPool, 256, 256,  kPool,
                                              512, 512,   kPool, 512,   512, kPool};
constexpr std::array<std::int64_t, 18> kVgg16{64,  64,    kPool, 128,   128, kPool,
                                              256, 256,   256,   kPool, 512, 512,
                                              512, kPool, 512,   512,   512, kPool};

class Vgg final : public Net {
 public:
  // The last feature map has `map` values, after it was pooled to pooled x pooled; with 0 it is
  // taken as it is.
  Vgg(std::int64_t channels, std::int64_t classes, std::span<const std::int64_t> widths,
      bool batch_norm, std::int64_t map, std::int64_t pooled)
      : pooled_(pooled),
        steps_(make_steps(weights_, channels, widths, batch_norm)),
        fc1_(weights_, "classifier.0", map, 4096, init::normal(0.01), init::zeros()),
        fc2_(weights_, "classifier.3", 4096, 4096, init::normal(0.01), init::zeros()) {
    declare_head("classifier.6", 4096, classes, init::normal(0.01), init::zeros());
  }

  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    at::Tensor x = images;
    for (const Step& step : steps_) {
      if (step.norm) {
        x = conv_norm_act(step.conv, *step.norm, x, pass, {.pool = step.pool});
        continue;
      }
      x = relu_in_place(step.conv(x, pass));
      if (step.pool) {
        x = max_pool(x, 2);
      }
    }
    x = pooled_ > 0 ? adaptive_average_pool(x, pooled_) : x;
    x = dropout(relu_in_place(fc1_(x.flatten(1), pass)), 0.5, pass);
    return dropout(relu_in_place(fc2_(x, pass)), 0.5, pass);
  }

 private:
  struct Step {
    Conv conv;
    std::optional<BatchNorm> norm;
    bool pool = false;
  };

  // torchvision numbers convolution, normalisation, ReLU and pooling in one sequence.
  static std::vector<Step> make_steps(Weights& weights, std::int64_t in,
                                      std::span<const std::int64_t> widths, bool batch_norm) {
    std::vector<Step> steps;
    int index = 0;
    for (const std::int64_t width : widths) {
      if (width == kPool) {
        steps.back().pool = true;
        ++index;
        continue;
      }
      const ConvShape shape{.in = in, .out = width, .kernel = 3, .padding = 1};
      steps.push_back({Conv(weights, fmt::format("features.{}", index), shape,
                            init::kaiming_normal(shape.fan_out()), init::zeros()),
                       std::nullopt});
      if (batch_norm) {
        steps.back().norm.emplace(weights, fmt::format("features.{}", ++index), width);
      }
      index += 2;
      in = width;
    }
    return steps;
  }

  std::int64_t pooled_;
  std::vector<Step> steps_;
  Linear fc1_;
  Linear fc2_;
};

// torchvision pools the last map to 7x7, which is its size at 224 pixels; at 32 pixels it is a
// single value per channel, which is repeated.
constexpr std::int64_t kPooled = 7;
constexpr std::int64_t kImageNetMap = 512 * kPooled * kPooled;
constexpr std::int64_t kSmallest = 32;  // five halvings leave one pixel

std::unique_ptr<Net> make_vgg11(const NetShape& shape) {
  require_size("vgg11", shape, kSmallest);
  return std::make_unique<Vgg>(shape.channels, shape.classes, kVgg11, false, kImageNetMap, kPooled);
}

std::unique_ptr<Net> make_vgg16_bn(const NetShape& shape) {
  return std::make_unique<Vgg>(shape.channels, shape.classes, kVgg16, true, kImageNetMap, kPooled);
}

std::unique_ptr<Net> make_vgg16_bn_cifar(const NetShape& shape) {
  require_size("vgg16_bn_cifar", shape, kSmallest);
  return std::make_unique<Vgg>(shape.channels, shape.classes, kVgg16, true,
                               512 * (shape.height / kSmallest) * (shape.width / kSmallest), 0);
}

}  // namespace

std::vector<NetInfo> vgg_nets() {
  return {{"vgg11",
           "torchvision's VGG-11; images are taken as they are, from 32x32 on",
           {1000, 3, kImageNetSize, kImageNetSize},
           0,
           make_vgg11},
          {"vgg16_bn",
           "torchvision's VGG-16 with batch norm; images are resized to 224x224",
           {1000, 3, kImageNetSize, kImageNetSize},
           kImageNetSize,
           make_vgg16_bn},
          {"vgg16_bn_cifar",
           "VGG-16 with batch norm for 32-pixel images, as Fed-NCL uses it",
           {10, 3, 32, 32},
           0,
           make_vgg16_bn_cifar}};
}

}  // namespace winnow
