// timm's vit_tiny_patch16_224 and vit_small_patch16_224 (spec: label-noise C.2). Tensor names and
// initial values are timm's; no dropout, no stochastic depth.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <cmath>
#include <memory>

#include "winnow/model/init.h"
#include "winnow/model/layers.h"
#include "winnow/model/zoo/families.h"

namespace winnow {
namespace {

constexpr std::int64_t kPatch = 16;
constexpr std::int64_t kTokens = (kImageNetSize / kPatch) * (kImageNetSize / kPatch) + 1;
constexpr std::int64_t kHeadWidth = 64;
constexpr int kVitDepth = 12;
constexpr double kEps = 1e-6;
constexpr double kStd = 0.02;

Linear make_linear(Weights& weights, const std::string& name, std::int64_t in, std::int64_t out) {
  return {weights, name, in, out, init::trunc_normal(kStd), init::zeros()};
}

// softmax(q k^T / sqrt(width)) v, in one kernel where the library has it.
at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
#if TORCH_VERSION_MAJOR >= 2
  if (query.is_cuda()) {
    return at::scaled_dot_product_attention(query, key, value);
  }
#endif
  const at::Tensor scaled = query * (1.0 / std::sqrt(double{kHeadWidth}));
  return at::matmul(at::matmul(scaled, key.transpose(-2, -1)).softmax(-1), value);
}

// A pre-norm block: attention and a two-layer perceptron, each added to its input.
struct VitBlock {
  VitBlock(Weights& weights, const std::string& name, std::int64_t dim)
      : norm1(weights, name + ".norm1", dim, kEps),
        qkv(make_linear(weights, name + ".attn.qkv", dim, 3 * dim)),
        proj(make_linear(weights, name + ".attn.proj", dim, dim)),
        norm2(weights, name + ".norm2", dim, kEps),
        fc1(make_linear(weights, name + ".mlp.fc1", dim, 4 * dim)),
        fc2(make_linear(weights, name + ".mlp.fc2", 4 * dim, dim)) {}

  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const {
    const at::Tensor y = x + attention(norm1(x, pass), pass);
    return y + fc2(at::gelu(fc1(norm2(y, pass), pass)), pass);
  }

  at::Tensor attention(const at::Tensor& x, const Pass& pass) const {
    const std::int64_t batch = x.size(0);
    const std::int64_t tokens = x.size(1);
    const std::int64_t dim = x.size(2);
    // [3, batch, heads, tokens, width of a head]
    const at::Tensor parts = qkv(x, pass)
                                 .reshape({batch, tokens, 3, dim / kHeadWidth, kHeadWidth})
                                 .permute({2, 0, 3, 1, 4});
    const at::Tensor mixed = attend(parts.select(0, 0), parts.select(0, 1), parts.select(0, 2));
    return proj(mixed.transpose(1, 2).reshape({batch, tokens, dim}), pass);
  }

  LayerNorm norm1;
  Linear qkv;
  Linear proj;
  LayerNorm norm2;
  Linear fc1;
  Linear fc2;
};

class Vit final : public Net {
 public:
  Vit(const NetShape& shape, std::int64_t dim)
      : cls_token_(weights_.add("cls_token", {1, 1, dim}, init::normal(1e-6))),
        pos_embed_(weights_.add("pos_embed", {1, kTokens, dim}, init::trunc_normal(kStd))),
        patch_embed_(weights_, "patch_embed.proj",
                     {.in = shape.channels, .out = dim, .kernel = kPatch, .stride = kPatch}),
        blocks_(make_blocks(weights_, dim)),
        norm_(weights_, "norm", dim, kEps) {
    declare_head("head", dim, shape.classes, init::trunc_normal(kStd), init::zeros());
  }

  at::Tensor features(const at::Tensor& images, const Pass& pass) const override {
    const at::Tensor patches = patch_embed_(images, pass).flatten(2).transpose(1, 2);
    const at::Tensor cls = cls_token_->expand({images.size(0), -1, -1});
    at::Tensor x = at::cat({cls, patches}, 1) + *pos_embed_;
    for (const VitBlock& block : blocks_) {
      x = block(x, pass);
    }
    // The norm works token by token, so only the class token needs it.
    return norm_(x.select(1, 0), pass);
  }

 private:
  static std::vector<VitBlock> make_blocks(Weights& weights, std::int64_t dim) {
    std::vector<VitBlock> blocks;
    for (int index = 0; index < kVitDepth; ++index) {
      blocks.emplace_back(weights, fmt::format("blocks.{}", index), dim);
    }
    return blocks;
  }

  const at::Tensor* cls_token_;
  const at::Tensor* pos_embed_;
  Conv patch_embed_;
  std::vector<VitBlock> blocks_;
  LayerNorm norm_;
};

}  // namespace

std::vector<NetInfo> vit_nets() {
  const auto make = [](std::int64_t dim) {
    return [dim](const NetShape& shape) -> std::unique_ptr<Net> {
      return std::make_unique<Vit>(shape, dim);
    };
  };
  return {{"vit_tiny",
           "timm's ViT-Tiny/16, width 192, 3 heads; images are resized to 224x224",
           {10, 3, kImageNetSize, kImageNetSize},
           kImageNetSize,
           make(192)},
          {"vit_small",
           "timm's ViT-Small/16, width 384, 6 heads; images are resized to 224x224",
           {1000, 3, kImageNetSize, kImageNetSize},
           kImageNetSize,
           make(384)}};
}

}  // namespace winnow
