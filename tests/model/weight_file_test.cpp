#include "winnow/model/weight_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <filesystem>

#include "model/support.h"
#include "winnow/base/files.h"
#include "winnow/base/sha256.h"
#include "winnow/model/safetensors.h"

namespace winnow::weight_file_test {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kHint =
    " | it holds another network, or this one for images of another shape";

// A file of tensors beside a fresh network that is to start from it.
class WeightFile : public ::testing::Test {
 protected:
  WeightFile()
      : folder_(std::filesystem::temp_directory_path() /
                fmt::format("winnow_weight_file_{}",
                            ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        path_(folder_ / "w.safetensors") {
    std::filesystem::create_directories(folder_);
    use("lenet5", {10, 1, 28, 28});
  }
  ~WeightFile() override { std::filesystem::remove_all(folder_); }

  // Makes the file that of a network with other values than the fresh ones.
  void use(const std::string& name, const NetShape& shape) {
    const std::unique_ptr<Net> net = builtin_networks().find(name).make(shape);
    head_ = net->head_name();
    fresh_ = net->weights().initial(1);
    other_ = net->weights().initial(2);
    other_.counters().fill_(41);
    save_state(path_, other_);
    tensors_ = load_tensors(path_).tensors;
  }

  LoadedWeights load() {
    save_tensors(path_, {tensors_, {}});
    return load_weights(path_, fresh_, head_);
  }
  std::string fault() {
    return error_text([&] { load(); });
  }
  void rename(const std::string& from, const std::string& to) {
    auto node = tensors_.extract(from);
    node.key() = to;
    tensors_.insert(std::move(node));
  }
  static bool same(const State& a, const State& b, const std::string& name) {
    return at::equal(a.view(*a.layout->find(name)), b.view(*b.layout->find(name)));
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
  std::string head_;
  State fresh_;
  State other_;
  std::map<std::string, at::Tensor> tensors_;
};

TEST_F(WeightFile, EveryBitOfAModelOfOursIsRead) {
  use("resnet18", {10, 3, 32, 32});
  const std::string before = hash(fresh_);
  const LoadedWeights loaded = load();
  EXPECT_EQ(hash(loaded.state), hash(other_));
  EXPECT_THAT(loaded.source.left_fresh, IsEmpty());
  EXPECT_EQ(loaded.source.hash, sha256_hex(read_file(path_)));
  EXPECT_EQ(hash(fresh_), before);
}

TEST_F(WeightFile, ValuesThatAreNoNumbersAreRefused) {
  for (const double value : {std::nan(""), HUGE_VAL}) {
    tensors_["conv2.weight"] = other_.view(*other_.layout->find("conv2.weight")).clone();
    tensors_["conv2.weight"].view(-1)[3] = value;
    EXPECT_THAT(fault(), HasSubstr(path_.string() + ": tensor \"conv2.weight\" holds values that "
                                                    "are not finite numbers | a run cannot start"));
  }
}

TEST_F(WeightFile, OtherWidthsBecomeFloat32) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16, at::kDouble}) {
    tensors_["conv1.weight"] = other_.view(*other_.layout->find("conv1.weight")).to(type);
    const LoadedWeights loaded = load();
    EXPECT_TRUE(at::equal(loaded.state.view(*loaded.state.layout->find("conv1.weight")),
                          tensors_["conv1.weight"].to(at::kFloat)));
    EXPECT_TRUE(same(loaded.state, other_, "conv2.weight"));
  }
}

// Half of 1.0009765625 as bytes, not through our own writer.
TEST_F(WeightFile, HalvesAreReadFromTheirBytes) {
  const std::string header = R"({"b":{"dtype":"BF16","shape":[1],"data_offsets":[2,4]},)"
                             R"("h":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})";
  std::string bytes{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  bytes += header + std::string("\x01\x3C\xC0\xBF", 4);
  const TensorFile file = decode_tensors(bytes, "x");
  EXPECT_EQ(file.tensors.at("h").item<double>(), 1.0009765625);
  EXPECT_EQ(file.tensors.at("b").item<double>(), -1.5);
}

TEST_F(WeightFile, CountersAreWholeNumbersAndMayBeMissing) {
  use("convmixer_256_8", {10, 3, 32, 32});
  tensors_.erase("stem.2.num_batches_tracked");
  tensors_["blocks.0.3.num_batches_tracked"] = at::scalar_tensor(7, at::kInt);
  const LoadedWeights loaded = load();
  const auto count = [&](const std::string& name) {
    return loaded.state.view(*loaded.state.layout->find(name)).item<float>();
  };
  EXPECT_EQ(count("stem.2.num_batches_tracked"), 0.0F);
  EXPECT_EQ(count("blocks.0.3.num_batches_tracked"), 7.0F);
  EXPECT_EQ(count("blocks.1.3.num_batches_tracked"), 41.0F);
  tensors_["blocks.0.3.num_batches_tracked"] = at::scalar_tensor(7.0F);
  EXPECT_THAT(fault(), HasSubstr("\"blocks.0.3.num_batches_tracked\" is F32 [], expected I64 []"));
}

TEST_F(WeightFile, AHeadForOtherClassesStaysFresh) {
  tensors_["fc3.weight"] = at::ones({1000, 84});
  tensors_["fc3.bias"] = at::ones({1000});
  const LoadedWeights loaded = load();
  EXPECT_THAT(loaded.source.left_fresh, ElementsAre("fc3.weight", "fc3.bias"));
  EXPECT_TRUE(same(loaded.state, fresh_, "fc3.weight"));
  EXPECT_TRUE(same(loaded.state, fresh_, "fc3.bias"));
  EXPECT_TRUE(same(loaded.state, other_, "fc2.weight"));
}

TEST_F(WeightFile, AHeadThatDoesNotFitTheFeaturesIsAnError) {
  tensors_["fc3.weight"] = at::ones({1000, 85});
  tensors_["fc3.bias"] = at::ones({1000});
  EXPECT_EQ(fault(), path_.string() +
                         " does not fit the model: \"fc3.weight\" is F32 [1000, 85], expected F32 "
                         "[10, 84]; \"fc3.bias\" is F32 [1000], expected F32 [10]" +
                         kHint);
  tensors_["fc3.weight"] = at::ones({1000, 84});
  tensors_["fc3.bias"] = at::ones({999});
  EXPECT_THAT(fault(), HasSubstr("\"fc3.bias\" is F32 [999], expected F32 [10]"));
  tensors_.erase("fc3.bias");
  EXPECT_THAT(fault(), HasSubstr("\"fc3.bias\" is missing"));
}

TEST_F(WeightFile, AllFaultsStandInOneError) {
  tensors_["extra"] = at::ones({1});
  tensors_["conv1.weight"] = at::ones({6, 3, 5, 5});
  tensors_["fc1.bias"] = at::ones({120}, at::kLong);
  tensors_.erase("fc2.weight");
  EXPECT_EQ(fault(), path_.string() +
                         " does not fit the model: \"extra\" is unknown; \"conv1.weight\" is F32 "
                         "[6, 3, 5, 5], expected F32 [6, 1, 5, 5]; \"fc1.bias\" is I64 [120], "
                         "expected F32 [120]; \"fc2.weight\" is missing" +
                         kHint);
}

TEST_F(WeightFile, OfManyFaultsFiveAreNamed) {
  for (const char* name :
       {"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight", "fc1.bias"}) {
    rename(name, std::string("module.") + name);
  }
  EXPECT_EQ(fault(), path_.string() +
                         " does not fit the model: \"module.conv1.bias\" is unknown; "
                         "\"module.conv1.weight\" is unknown; \"module.conv2.bias\" is unknown; "
                         "\"module.conv2.weight\" is unknown; \"module.fc1.bias\" is unknown; and "
                         "7 more" +
                         kHint);
}

TEST_F(WeightFile, AMissingOrDamagedFileIsNamed) {
  EXPECT_THAT(error_text([&] { load_weights("/no/w.safetensors", fresh_, head_); }),
              HasSubstr("cannot read /no/w.safetensors: no such file"));
  write_file_whole(path_, "pickle");
  EXPECT_THAT(error_text([&] { load_weights(path_, fresh_, head_); }),
              HasSubstr("too few for a safetensors file"));
}

// The names of torch.nn.Module.state_dict() of timm's vit_tiny_patch16_224.
TEST_F(WeightFile, TheTransformerHasTimmsNames) {
  use("vit_tiny", {10, 3, 224, 224});
  std::vector<std::string> names{"cls_token", "pos_embed"};
  const auto add = [&](const std::string& layer) {
    names.push_back(layer + ".weight");
    names.push_back(layer + ".bias");
  };
  add("patch_embed.proj");
  for (int block = 0; block < 12; ++block) {
    for (const char* part : {"norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2"}) {
      add(fmt::format("blocks.{}.{}", block, part));
    }
  }
  add("norm");
  add("head");
  std::vector<std::string> ours;
  for (const Slot& slot : fresh_.layout->slots()) {
    ours.push_back(slot.name);
  }
  EXPECT_THAT(ours, ::testing::UnorderedElementsAreArray(names));
}

TEST_F(WeightFile, TorchvisionsTransformerNamesAreRead) {
  use("vit_tiny", {10, 3, 224, 224});
  rename("cls_token", "class_token");
  rename("pos_embed", "encoder.pos_embedding");
  for (const char* part : {"weight", "bias"}) {
    const auto both = [&](const std::string& ours, const std::string& theirs) {
      rename(ours + part, theirs + part);
    };
    both("patch_embed.proj.", "conv_proj.");
    both("norm.", "encoder.ln.");
    both("head.", "heads.head.");
    for (int block = 0; block < 12; ++block) {
      const std::string ours = fmt::format("blocks.{}.", block);
      const std::string theirs = fmt::format("encoder.layers.encoder_layer_{}.", block);
      both(ours + "norm1.", theirs + "ln_1.");
      both(ours + "norm2.", theirs + "ln_2.");
      both(ours + "attn.qkv.", theirs + "self_attention.in_proj_");
      both(ours + "attn.proj.", theirs + "self_attention.out_proj.");
      both(ours + "mlp.fc1.", theirs + (block < 6 ? "mlp.0." : "mlp.linear_1."));
      both(ours + "mlp.fc2.", theirs + (block < 6 ? "mlp.3." : "mlp.linear_2."));
    }
  }
  EXPECT_EQ(hash(load().state), hash(other_));
}

// timm writes VGG's linear layers as convolutions; here over maps of 2 x 2 with 3 channels.
TEST_F(WeightFile, TimmsVggIsRead) {
  fresh_ = State::zeros(
      std::make_shared<const Layout>(std::vector<Slot>{{"classifier.0.weight", {4, 12}},
                                                       {"classifier.0.bias", {4}},
                                                       {"classifier.3.weight", {4, 4}},
                                                       {"classifier.3.bias", {4}},
                                                       {"classifier.6.weight", {2, 4}},
                                                       {"classifier.6.bias", {2}}}));
  head_ = "classifier.6";
  tensors_ = {{"pre_logits.fc1.weight", at::arange(48, at::kFloat).view({4, 3, 2, 2})},
              {"pre_logits.fc1.bias", at::full({4}, 48.0F)},
              {"pre_logits.fc2.weight", at::full({4, 4, 1, 1}, 49.0F)},
              {"pre_logits.fc2.bias", at::full({4}, 50.0F)},
              {"head.fc.weight", at::full({2, 4}, 51.0F)},
              {"head.fc.bias", at::full({2}, 52.0F)}};
  const State state = load().state;
  const auto value = [&](const char* name) {
    return state.view(*state.layout->find(name)).flatten()[-1].item<float>();
  };
  EXPECT_TRUE(at::equal(state.flat.slice(0, 0, 48), at::arange(48, at::kFloat)));
  EXPECT_EQ(value("classifier.0.bias"), 48.0F);
  EXPECT_EQ(value("classifier.3.weight"), 49.0F);
  EXPECT_EQ(value("classifier.3.bias"), 50.0F);
  EXPECT_EQ(value("classifier.6.weight"), 51.0F);
  EXPECT_EQ(value("classifier.6.bias"), 52.0F);
}

TEST_F(WeightFile, ANameThatIsThereTwiceIsAnError) {
  use("convmixer_256_8", {10, 3, 32, 32});
  tensors_["heads.head.bias"] = tensors_["head.bias"];
  EXPECT_THAT(fault(), EndsWith(fmt::format(
                           "does not fit the model: \"heads.head.bias\" is unknown{}", kHint)));
}

}  // namespace winnow::weight_file_test
