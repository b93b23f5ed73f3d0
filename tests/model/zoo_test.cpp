#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "model/support.h"
#include "winnow/model/net.h"

namespace winnow::zoo_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::int64_t tensors_of(const Layout& layout, SlotKind kind) {
  return std::ranges::count(layout.slots(), kind, &Slot::kind);
}

std::int64_t values_below(const Layout& layout, std::string_view prefix) {
  std::int64_t values = 0;
  for (const Slot& slot : layout.slots()) {
    values += slot.name.starts_with(prefix) ? slot.size : 0;
  }
  return values;
}

struct Count {
  const char* net;
  NetShape shape;
  std::int64_t parameters;
  std::int64_t tensors;  // of parameters
  std::int64_t buffers;  // values of running statistics
  std::int64_t norms;    // counters, one for each batch norm with running statistics
};

void PrintTo(const Count& count, std::ostream* out) {
  *out << count.net << " for " << count.shape.classes << " classes";
}

class ZooCounts : public ::testing::TestWithParam<Count> {};

TEST_P(ZooCounts, AreThePublishedOnes) {
  const Count& expected = GetParam();
  const LayoutPtr layout =
      builtin_networks().find(expected.net).make(expected.shape)->weights().layout();
  EXPECT_EQ(layout->parameters(), expected.parameters);
  EXPECT_EQ(tensors_of(*layout, SlotKind::parameter), expected.tensors);
  EXPECT_EQ(layout->buffers(), expected.buffers);
  EXPECT_EQ(layout->counters(), expected.norms);
}

// spec: label-noise A.2, B.2, B.8 #8, C.2, C.7 #12; input-noise 1.9, 2.7; torchvision; timm.
INSTANTIATE_TEST_SUITE_P(
    Spec, ZooCounts,
    ::testing::Values(Count{"lenet5", {10, 3, 32, 32}, 62'006, 10, 0, 0},
                      Count{"lenet5", {10, 1, 28, 28}, 61'706, 10, 0, 0},
                      Count{"lenet5_valid", {10, 1, 28, 28}, 44'426, 10, 0, 0},
                      Count{"cnn4", {10, 3, 32, 32}, 115'658, 18, 0, 0},
                      Count{"cnn4", {100, 3, 32, 32}, 138'788, 18, 0, 0},
                      Count{"cnn2", {10, 3, 32, 32}, 1'626'442, 8, 0, 0},
                      Count{"resnet18", {10, 3, 32, 32}, 11'173'962, 62, 9'600, 20},
                      Count{"resnet18", {100, 3, 32, 32}, 11'220'132, 62, 9'600, 20},
                      Count{"resnet18", {200, 3, 64, 64}, 11'271'432, 62, 9'600, 20},
                      Count{"resnet18", {10, 1, 28, 28}, 11'172'810, 62, 9'600, 20},
                      Count{"resnet34", {100, 3, 32, 32}, 21'328'292, 110, 17'024, 36},
                      Count{"resnet50", {1000, 3, 224, 224}, 25'557'032, 161, 53'120, 53},
                      Count{"vgg11", {1000, 3, 224, 224}, 132'863'336, 22, 0, 0},
                      Count{"vgg16_bn", {1000, 3, 224, 224}, 138'365'992, 58, 8'448, 13},
                      Count{"vgg16_bn_cifar", {10, 3, 32, 32}, 33'646'666, 58, 8'448, 13},
                      Count{"mobilenet", {100, 3, 32, 32}, 3'309'476, 83, 0, 0},
                      Count{"convmixer_256_8", {10, 3, 32, 32}, 594'186, 70, 8'704, 17},
                      Count{"convmixer_256_8", {100, 3, 32, 32}, 617'316, 70, 8'704, 17},
                      Count{"convmixer_256_8", {200, 3, 32, 32}, 643'016, 70, 8'704, 17},
                      Count{"vit_tiny", {10, 3, 224, 224}, 5'526'346, 152, 0, 0},
                      Count{"vit_tiny", {100, 3, 224, 224}, 5'543'716, 152, 0, 0},
                      Count{"vit_small", {1000, 3, 224, 224}, 22'050'664, 152, 0, 0}));

TEST(Zoo, SizesInBytesAreThoseOfTheSpec) {
  const auto bytes = [](const char* name) {
    return 4 * builtin_networks().find(name).make({})->weights().layout()->parameters();
  };
  EXPECT_EQ(bytes("cnn4"), 462'632);
  EXPECT_EQ(bytes("vit_tiny"), 22'105'384);
  EXPECT_EQ(bytes("resnet18"), 44'695'848);
}

TEST(Zoo, AVitTinyBlockHas444864Parameters) {
  const LayoutPtr layout = builtin_networks().find("vit_tiny").make({})->weights().layout();
  for (int block = 0; block < 12; ++block) {
    EXPECT_EQ(values_below(*layout, "blocks." + std::to_string(block) + "."), 444'864);
  }
}

TEST(Zoo, Vgg16BnHas97StateEntries) {
  EXPECT_EQ(builtin_networks().find("vgg16_bn_cifar").make({})->weights().layout()->slots().size(),
            97U);
}

TEST(Zoo, NamesAreUniqueAndFoundAndTheHeadIsInTheLayout) {
  std::set<std::string> names;
  for (const NetInfo& info : builtin_networks()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.summary.empty()) << info.name;
    EXPECT_EQ(&builtin_networks().find(info.name), &info);
    const std::unique_ptr<Net> net = info.make(info.usual);
    const LayoutPtr layout = net->weights().layout();
    std::set<std::string> slots;
    for (const Slot& slot : layout->slots()) {
      EXPECT_TRUE(slots.insert(slot.name).second) << info.name << " " << slot.name;
    }
    const Slot* head = layout->find(net->head_name() + ".weight");
    ASSERT_NE(head, nullptr) << info.name;
    EXPECT_EQ(head->shape.front(), info.usual.classes) << info.name;
    EXPECT_NE(layout->find(net->head_name() + ".bias"), nullptr) << info.name;
  }
  EXPECT_EQ(names.size(), 14U);
}

TEST(Zoo, NetsOfTheLibrariesCarryTheLibrariesNames) {
  const auto expect = [](const char* net, const std::vector<const char*>& names) {
    const LayoutPtr layout = builtin_networks().find(net).make({})->weights().layout();
    for (const char* name : names) {
      EXPECT_NE(layout->find(name), nullptr) << net << " " << name;
    }
  };
  expect("resnet18", {"conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight",
                      "layer1.1.bn2.num_batches_tracked", "layer2.0.downsample.0.weight",
                      "layer2.0.downsample.1.running_var", "fc.weight", "fc.bias"});
  expect("resnet50", {"layer1.0.conv3.weight", "layer1.0.downsample.0.weight",
                      "layer4.2.bn3.weight", "fc.weight"});
  expect("vgg11",
         {"features.0.weight", "features.3.bias", "features.6.weight", "features.8.weight",
          "features.11.weight", "features.13.weight", "features.16.weight", "features.18.bias",
          "classifier.0.weight", "classifier.3.weight", "classifier.6.bias"});
  expect("vgg16_bn",
         {"features.0.weight", "features.1.running_mean", "features.3.weight", "features.7.weight",
          "features.40.weight", "features.41.bias", "classifier.6.weight"});
  expect("vit_tiny", {"cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias",
                      "blocks.11.norm1.weight", "blocks.0.attn.qkv.bias", "blocks.0.attn.proj.bias",
                      "blocks.0.norm2.bias", "blocks.0.mlp.fc1.weight", "blocks.0.mlp.fc2.weight",
                      "norm.weight", "head.weight"});
  expect("cnn4", {"features.0.0.weight", "features.3.1.bias", "linear.weight"});
  expect("convmixer_256_8",
         {"stem.0.weight", "stem.2.running_var", "blocks.7.0.fn.0.weight", "blocks.7.0.fn.2.bias",
          "blocks.7.1.weight", "blocks.7.3.weight", "head.bias"});
}

TEST(Zoo, ResizedNetsAreTheSameForEverySizeOfImage) {
  for (const NetInfo& info : builtin_networks()) {
    if (info.resize > 0) {
      EXPECT_EQ(*info.make({10, 3, 32, 32})->weights().layout(),
                *info.make({10, 3, 224, 224})->weights().layout())
          << info.name;
    }
  }
}

TEST(Zoo, AnUnknownNameGetsASuggestion) {
  EXPECT_EQ(error_text([] { builtin_networks().find("resnet81"); }),
            "unknown model 'resnet81' | did you mean 'resnet18'?");
}

TEST(Zoo, AShapeThatDoesNotFitIsNamedWithTheSmallestThatDoes) {
  EXPECT_EQ(error_text([] {
              builtin_networks().find("cnn2").make({10, 3, 4, 4});
            }),
            "model 'cnn2' cannot take 3x4x4 images: it needs at least 6x6 | "
            "set model.resize = 6 or more, or choose another model");
  EXPECT_THAT(error_text([] {
                builtin_networks().find("vgg16_bn_cifar").make({10, 1, 28, 28});
              }),
              AllOf(HasSubstr("'vgg16_bn_cifar'"), HasSubstr("1x28x28"), HasSubstr("32x32")));
}

struct Smallest {
  const char* net;
  std::int64_t size;
};

TEST(Zoo, TheSmallestSizeWorksAndOneLessDoesNot) {
  for (const auto& [name, size] : {Smallest{"lenet5", 16},
                                   {"lenet5_valid", 16},
                                   {"cnn4", 16},
                                   {"cnn2", 6},
                                   {"resnet18", 9},
                                   {"mobilenet", 17},
                                   {"convmixer_256_8", 4}}) {
    BoundNet bound = bound_net(name, {7, 2, size, size});
    const at::Tensor logits = bound.net->forward(noise({1, 2, size, size}, 3), {.training = true});
    EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{1, 7})) << name;
    EXPECT_TRUE(at::isfinite(bound.state.flat).all().item<bool>()) << name;
    EXPECT_THAT(error_text([&] {
                  builtin_networks().find(name).make({7, 2, size, size - 1});
                }),
                HasSubstr("it needs at least " + std::to_string(size)))
        << name;
  }
}

TEST(Zoo, OblongImagesFit) {
  for (const char* name : {"lenet5", "cnn4", "cnn2", "resnet18", "mobilenet", "convmixer_256_8"}) {
    BoundNet bound = bound_net(name, {4, 3, 24, 40});
    EXPECT_EQ(bound.net->forward(noise({2, 3, 24, 40}, 3), {}).sizes(),
              (std::vector<std::int64_t>{2, 4}))
        << name;
  }
}

TEST(Zoo, ForwardGivesOneRowOfLogitsPerImage) {
  for (const char* name : {"lenet5", "cnn4", "cnn2", "resnet18", "resnet34", "mobilenet",
                           "convmixer_256_8", "vit_tiny", "resnet50"}) {
    const NetInfo& info = builtin_networks().find(name);
    const std::int64_t size = info.resize > 0 ? info.resize : 32;
    BoundNet bound = bound_net(name, {10, 3, 32, 32});
    const c10::NoGradGuard no_grad;
    const at::Tensor images = noise({2, 3, size, size}, 5);
    const at::Tensor features = bound.net->features(images, {});
    const at::Tensor logits = bound.net->logits(features);
    EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{2, 10})) << name;
    EXPECT_TRUE(at::isfinite(logits).all().item<bool>()) << name;
    EXPECT_EQ(features.size(1), bound.weight(bound.net->head_name() + ".weight").size(1)) << name;
    EXPECT_TRUE(at::equal(logits, bound.net->forward(images, {}))) << name;
  }
}

// The VGG nets are too large to initialise here: constant weights show the shapes.
TEST(Zoo, VggMapsFitTheirClassifiers) {
  for (const auto& [name, size] : {Smallest{"vgg11", 32},
                                   {"vgg11", 64},
                                   {"vgg11", 224},
                                   {"vgg16_bn", 32},
                                   {"vgg16_bn_cifar", 32}}) {
    const std::unique_ptr<Net> net = builtin_networks().find(name).make({10, 3, size, size});
    net->weights().bind(at::full({net->weights().layout()->total()}, 1e-3), {});
    EXPECT_EQ(net->forward(noise({1, 3, size, size}, 5), {}).sizes(),
              (std::vector<std::int64_t>{1, 10}))
        << name;
  }
}

// At 32 pixels the last map has one pixel, which torchvision's pooling puts at all 7x7 places: each
// of these columns of the first linear layer sees it.
TEST(Zoo, Vgg11SeesTheSinglePixelOfASmallImageAtEveryPlace) {
  const NetInfo& info = builtin_networks().find("vgg11");
  EXPECT_EQ(info.resize, 0) << "images are taken as they are";
  const std::unique_ptr<Net> net = info.make({10, 3, 32, 32});
  EXPECT_EQ(net->weights().layout()->total(),
            info.make({10, 3, 224, 224})->weights().layout()->total());
  State state = State::zeros(net->weights().layout());
  state.flat.fill_(0.01);
  const at::Tensor columns = state.view(*state.layout->find("classifier.0.weight"));
  columns.zero_();
  net->weights().bind(state.flat, {});
  const at::Tensor images = at::ones({1, 3, 32, 32});
  const c10::NoGradGuard no_grad;
  const at::Tensor without = net->forward(images, {});
  for (const std::int64_t place : {0, 24, 48}) {
    columns.zero_();
    columns.select(1, 3 * 49 + place).fill_(1);
    const at::Tensor with = net->forward(images, {});
    EXPECT_TRUE(with.gt(without).all().item<bool>()) << place;
    columns.zero_();
    columns.select(1, 3 * 49).fill_(1);
    EXPECT_TRUE(at::equal(net->forward(images, {}), with)) << place;
  }
  EXPECT_THAT(error_text([&] {
                info.make({10, 1, 28, 28});
              }),
              HasSubstr("set model.resize = 32 or more"));
}

// spec: label-noise C.7 #12
TEST(Zoo, PermutingTheRowsOfTheHeadPermutesTheLogits) {
  for (const char* name : {"lenet5", "vit_tiny"}) {
    const NetInfo& info = builtin_networks().find(name);
    const std::int64_t size = info.resize > 0 ? info.resize : 32;
    BoundNet bound = bound_net(name, {10, 3, 32, 32});
    const c10::NoGradGuard no_grad;
    const at::Tensor features = bound.net->features(noise({2, 3, size, size}, 5), {});
    const at::Tensor before = bound.net->logits(features);
    const at::Tensor order = at::tensor({3, 1, 4, 0, 5, 9, 2, 6, 8, 7}, at::kLong);
    for (const char* part : {".weight", ".bias"}) {
      const at::Tensor rows = bound.weight(bound.net->head_name() + part);
      rows.copy_(rows.index_select(0, order));
    }
    EXPECT_TRUE(
        at::allclose(bound.net->logits(features), before.index_select(1, order), 1e-6, 1e-6))
        << name;
  }
}

// spec: label-noise B.8 #8
TEST(Cnn4, ScalingAConvolutionDoesNotChangeTheLogits) {
  BoundNet bound = bound_net("cnn4", {10, 3, 32, 32});
  const c10::NoGradGuard no_grad;
  const at::Tensor images = noise({8, 3, 32, 32}, 5);
  const at::Tensor before = bound.net->forward(images, {});
  bound.weight("features.1.0.weight").mul_(10);
  bound.weight("features.1.0.bias").mul_(10);
  EXPECT_TRUE(at::allclose(bound.net->forward(images, {}), before, 0, 1e-3));
}

TEST(Cnn4, TheLogitsOfAnImageDependOnItsBatchAlsoOutsideOfTraining) {
  BoundNet bound = bound_net("cnn4", {10, 3, 32, 32});
  const c10::NoGradGuard no_grad;
  const at::Tensor image = noise({1, 3, 32, 32}, 5);
  const auto scored_with = [&](std::uint64_t seed) {
    return bound.net->forward(at::cat({image, noise({7, 3, 32, 32}, seed)}), {}).select(0, 0);
  };
  EXPECT_GT((scored_with(6) - scored_with(7)).abs().max().item<float>(), 1e-3F);
  EXPECT_TRUE(at::equal(scored_with(6), scored_with(6)));
}

TEST(Resnet18, TheLogitsOfAnImageDoNotDependOnItsBatchOutsideOfTraining) {
  BoundNet bound = bound_net("resnet18", {10, 3, 16, 16});
  const c10::NoGradGuard no_grad;
  const at::Tensor images = noise({4, 3, 16, 16}, 5);
  EXPECT_TRUE(at::allclose(bound.net->forward(images, {}).narrow(0, 0, 1),
                           bound.net->forward(images.narrow(0, 0, 1), {}), 1e-4, 1e-5));
}

}  // namespace winnow::zoo_test
