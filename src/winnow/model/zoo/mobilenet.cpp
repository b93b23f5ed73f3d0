// FedRN's MobileNet (spec: label-noise B.2): batch norm without running statistics throughout.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <memory>

#include "winnow/model/init.h"
#include "winnow/model/layers.h"
#include "winnow/model/zoo/families.h"

namespace winnow {
namespace {

struct PairShape {
  std::int64_t out;
  std::int64_t stride;
};

constexpr std::array<PairShape, 13> kPairs{{{64, 1},
                                            {128, 2},
                                            {128, 1},
                                            {256, 2},
                                            {256, 1},
                                            {512, 2},
                                            {512, 1},
                                            {512, 1},
                                            {512, 1},
                                            {512, 1},
                                            {512, 1},
                                            {1024, 2},
                                            {1024, 1}}};

// Convolution without bias, normalisation and ReLU.
struct MobileUnit {
  MobileUnit(Weights& weights, const std::string& prefix, int number, ConvShape shape)
      : conv(weights, fmt::format("{}conv{}", prefix, number), without_bias(shape)),
        norm(weights, fmt::format("{}bn{}", prefix, number), shape.out, Statistics::batch) {}

  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const {
    return conv_norm_act(conv, norm, x, pass);
  }

  static ConvShape without_bias(ConvShape shape) {
    shape.bias = false;
    return shape;
  }

  Conv conv;
  BatchNorm norm;
};

// The original pools the 2x2 map of a 32-pixel image; the global mean is the same there and fits
// other sizes.
class MobileNet final : public Net {
 public:
  explicit MobileNet(const NetShape& shape) {
    units_.emplace_back(weights_, "", 1,
                        ConvShape{.in = shape.channels, .out = 32, .kernel = 3, .padding = 1});
    std::int64_t in = 32;
    for (std::size_t index = 0; index < kPairs.size(); ++index) {
      const auto [out, stride] = kPairs[index];
      const std::string prefix = fmt::format("layers.{}.", index);
      units_.emplace_back(
          weights_, prefix, 1,
          ConvShape{
              .in = in, .out = in, .kernel = 3, .stride = stride, .padding = 1, .groups = in});
      units_.emplace_back(weights_, prefix, 2, ConvShape{.in = in, .out = out, .kernel = 1});
      in = out;
    }
    declare_head("linear", in, shape.classes, init::fan_in_uniform(in), init::fan_in_uniform(in));
  }

  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    at::Tensor x = channels_together(images);
    for (const MobileUnit& unit : units_) {
      x = unit(x, pass);
    }
    return global_average_pool(x);
  }

 private:
  std::vector<MobileUnit> units_;
};

std::unique_ptr<Net> make_mobilenet(const NetShape& shape) {
  require_size("mobilenet", shape, 17);
  return std::make_unique<MobileNet>(shape);
}

}  // namespace

std::vector<NetInfo> mobilenet_nets() {
  return {{"mobilenet",
           "FedRN's MobileNet; always normalises with the statistics of the batch",
           {100, 3, 32, 32},
           0,
           make_mobilenet}};
}

}  // namespace winnow
