// ConvMixer-256/8 with kernel 5 and patch 2 (spec: input-noise 1.9). Tensor names are timm's.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <memory>

#include "winnow/model/init.h"
#include "winnow/model/layers.h"
#include "winnow/model/zoo/families.h"

namespace winnow {
namespace {

constexpr std::int64_t kWidth = 256;
constexpr int kMixerDepth = 8;

// Convolution, GELU (exact), normalisation; the GELU has a number of its own in the sequence.
struct ConvUnit {
  ConvUnit(Weights& weights, const std::string& prefix, int number, const ConvShape& shape)
      : conv(weights, fmt::format("{}.{}", prefix, number), shape),
        norm(weights, fmt::format("{}.{}", prefix, number + 2), shape.out) {}

  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const {
    return norm(at::gelu(conv(x, pass)), pass);
  }

  Conv conv;
  BatchNorm norm;
};

struct MixerBlock {
  MixerBlock(Weights& weights, const std::string& name)
      : depthwise(weights, name + ".0.fn", 0,
                  {.in = kWidth, .out = kWidth, .kernel = 5, .padding = 2, .groups = kWidth}),
        pointwise(weights, name, 1, {.in = kWidth, .out = kWidth, .kernel = 1}) {}

  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const {
    return pointwise(depthwise(x, pass).add_(x), pass);
  }

  ConvUnit depthwise;
  ConvUnit pointwise;
};

class ConvMixer final : public Net {
 public:
  explicit ConvMixer(const NetShape& shape)
      : stem_(weights_, "stem", 0,
              {.in = shape.channels, .out = kWidth, .kernel = 2, .stride = 2}) {
    for (int index = 0; index < kMixerDepth; ++index) {
      blocks_.emplace_back(weights_, fmt::format("blocks.{}", index));
    }
    declare_head("head", kWidth, shape.classes, init::fan_in_uniform(kWidth),
                 init::fan_in_uniform(kWidth));
  }

  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    at::Tensor x = stem_(images, pass);
    for (const MixerBlock& block : blocks_) {
      x = block(x, pass);
    }
    return global_average_pool(x);
  }

 private:
  ConvUnit stem_;
  std::vector<MixerBlock> blocks_;
};

std::unique_ptr<Net> make_convmixer(const NetShape& shape) {
  require_size("convmixer_256_8", shape, 4);
  return std::make_unique<ConvMixer>(shape);
}

}  // namespace

std::vector<NetInfo> convmixer_nets() {
  return {{"convmixer_256_8",
           "ConvMixer of width 256 and depth 8, kernel 5, patches of 2 pixels",
           {10, 3, 32, 32},
           0,
           make_convmixer}};
}

}  // namespace winnow
