#include "winnow/model/script_text.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/base/text.h"

namespace winnow {
namespace {

// Writes the lines of one forward. Every call but result() continues with `x`, as the text does.
class Writer {
 public:
  explicit Writer(const Layout& layout) : layout_(&layout) {}

  bool has(const std::string& name) const { return layout_->find(name) != nullptr; }
  const Slot& slot(const std::string& name) const { return *layout_->find(name); }

  void line(const std::string& text) { text_ += "    " + text + "\n"; }

  void conv(const std::string& name, std::int64_t stride, std::int64_t padding,
            const std::string& groups = "1", const std::string& x = "x") {
    line(fmt::format("{0} = torch.conv2d({0}, {1}, {2}, [{3}, {3}], [{4}, {4}], [1, 1], {5})", x,
                     tensor(name + ".weight"), tensor(name + ".bias"), stride, padding, groups));
  }
  // Each channel by itself.
  void depthwise(const std::string& name, std::int64_t stride, std::int64_t padding) {
    conv(name, stride, padding, "x.size(1)");
  }
  // With the statistics of the batch where the network has no running ones.
  void batch_norm(const std::string& name, const std::string& x = "x") {
    const std::string mean = tensor(name + ".running_mean");
    line(fmt::format("{0} = torch.batch_norm({0}, {1}, {2}, {3}, {4}, {5}, 0.1, 1e-05, True)", x,
                     tensor(name + ".weight"), tensor(name + ".bias"), mean,
                     tensor(name + ".running_var"), mean == "None" ? "True" : "self.training"));
  }
  void layer_norm(const std::string& name, const std::string& to, const std::string& from) {
    line(fmt::format("{} = torch.layer_norm({}, [{}], {}, {}, 1e-06)", to, from,
                     slot(name + ".weight").size, tensor(name + ".weight"),
                     tensor(name + ".bias")));
  }
  void linear(const std::string& name, const std::string& x = "x") {
    line(fmt::format("{0} = torch.linear({0}, {1}, {2})", x, tensor(name + ".weight"),
                     tensor(name + ".bias")));
  }
  void relu() { line("x = torch.relu(x)"); }
  void gelu(const std::string& x = "x") { line(fmt::format("{0} = torch.gelu({0})", x)); }
  void flatten() { line("x = torch.flatten(x, 1)"); }
  void adaptive_average_pool(int size) {
    line(fmt::format("x = torch.adaptive_avg_pool2d(x, [{0}, {0}])", size));
  }
  void mean() { line("x = torch.mean(x, [2, 3])"); }
  void dropout(double rate) { line(fmt::format("x = torch.dropout(x, {}, self.training)", rate)); }
  void max_pool() { max_pool(2, 2, 0); }
  void max_pool(int size, int stride, int padding) {
    line(fmt::format("x = torch.max_pool2d(x, [{0}, {0}], [{1}, {1}], [{2}, {2}], [1, 1], False)",
                     size, stride, padding));
  }

  // Where a tensor is found from the module: parts that are numbers need getattr.
  std::string tensor(const std::string& name) const {
    if (!has(name)) {
      return "None";
    }
    std::string place = "self";
    for (const std::string& part : split(name, '.')) {
      const bool number = part.front() >= '0' && part.front() <= '9';
      place = number ? fmt::format("getattr({}, \"{}\")", place, part)
                     : fmt::format("{}.{}", place, part);
    }
    return place;
  }

  std::string result() const {
    return fmt::format("def forward(self, x: Tensor) -> Tensor:\n{}    return x\n", text_);
  }

 private:
  const Layout* layout_;
  std::string text_;
};

void write_lenet(Writer& to, std::int64_t padding) {
  to.conv("conv1", 1, padding);
  to.relu();
  to.max_pool();
  to.conv("conv2", 1, 0);
  to.relu();
  to.max_pool();
  to.flatten();
  to.linear("fc1");
  to.relu();
  to.linear("fc2");
  to.relu();
  to.linear("fc3");
}

void write_lenet5(Writer& to, const NetShape& shape) {
  write_lenet(to, shape.height == 28 && shape.width == 28 ? 2 : 0);
}

void write_lenet5_valid(Writer& to, const NetShape& /*shape*/) {
  write_lenet(to, 0);
}

void write_cnn4(Writer& to, const NetShape& /*shape*/) {
  for (int block = 0; block < 4; ++block) {
    to.conv(fmt::format("features.{}.0", block), 1, 1);
    to.batch_norm(fmt::format("features.{}.1", block));
    to.relu();
    to.max_pool();
  }
  to.flatten();
  to.linear("linear");
}

void write_cnn2(Writer& to, const NetShape& /*shape*/) {
  to.conv("conv1", 1, 0);
  to.relu();
  to.conv("conv2", 1, 0);
  to.relu();
  to.max_pool();
  to.dropout(0.25);
  to.flatten();
  to.linear("fc1");
  to.relu();
  to.dropout(0.5);
  to.linear("fc2");
}

// A block of two 3x3 convolutions, or of 1x1, 3x3, 1x1; the first 3x3 carries the stride.
void write_residual_block(Writer& to, const std::string& name, std::int64_t stride) {
  to.line("y = x");
  bool strided = false;
  for (int step = 1; to.has(fmt::format("{}.conv{}.weight", name, step)); ++step) {
    const std::string conv = fmt::format("{}.conv{}", name, step);
    const std::int64_t kernel = to.slot(conv + ".weight").shape.back();
    const bool here = kernel == 3 && !strided;
    strided = strided || here;
    if (step > 1) {
      to.relu();
    }
    to.conv(conv, here ? stride : 1, kernel / 2);
    to.batch_norm(fmt::format("{}.bn{}", name, step));
  }
  if (to.has(name + ".downsample.0.weight")) {
    to.conv(name + ".downsample.0", stride, 0, "1", "y");
    to.batch_norm(name + ".downsample.1", "y");
  }
  to.line("x = torch.relu(x + y)");
}

void write_resnet(Writer& to, const NetShape& /*shape*/) {
  const bool large = to.slot("conv1.weight").shape.back() == 7;  // torchvision's stem
  to.conv("conv1", large ? 2 : 1, large ? 3 : 1);
  to.batch_norm("bn1");
  to.relu();
  if (large) {
    to.max_pool(3, 2, 1);
  }
  for (int stage = 1; stage <= 4; ++stage) {
    for (int block = 0; to.has(fmt::format("layer{}.{}.conv1.weight", stage, block)); ++block) {
      write_residual_block(to, fmt::format("layer{}.{}", stage, block),
                           stage > 1 && block == 0 ? 2 : 1);
    }
  }
  to.mean();
  to.linear("fc");
}

// In torchvision's sequence a convolution, its normalisation and its ReLU take a number each; where
// the next number has no convolution, there is a max-pool.
void write_vgg(Writer& to, const NetShape& /*shape*/) {
  const auto is_conv = [&](int number) {
    const std::string name = fmt::format("features.{}.weight", number);
    return to.has(name) && to.slot(name).shape.size() == 4;
  };
  for (int number = 0; is_conv(number);) {
    to.conv(fmt::format("features.{}", number++), 1, 1);
    if (to.has(fmt::format("features.{}.running_mean", number))) {
      to.batch_norm(fmt::format("features.{}", number++));
    }
    to.relu();
    ++number;
    if (!is_conv(number)) {
      to.max_pool();
      ++number;
    }
  }
  if (to.slot("classifier.0.weight").shape[1] == 512 * 7 * 7) {
    to.adaptive_average_pool(7);
  }
  to.flatten();
  for (const char* layer : {"classifier.0", "classifier.3"}) {
    to.linear(layer);
    to.relu();
    to.dropout(0.5);
  }
  to.linear("classifier.6");
}

void write_mobilenet(Writer& to, const NetShape& /*shape*/) {
  constexpr std::array<int, 13> kStrides{1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1};
  to.conv("conv1", 1, 1);
  to.batch_norm("bn1");
  to.relu();
  for (std::size_t pair = 0; pair < kStrides.size(); ++pair) {
    const std::string name = fmt::format("layers.{}.", pair);
    to.depthwise(name + "conv1", kStrides[pair], 1);
    to.batch_norm(name + "bn1");
    to.relu();
    to.conv(name + "conv2", 1, 0);
    to.batch_norm(name + "bn2");
    to.relu();
  }
  to.mean();
  to.linear("linear");
}

void write_convmixer(Writer& to, const NetShape& /*shape*/) {
  to.conv("stem.0", 2, 0);
  to.gelu();
  to.batch_norm("stem.2");
  for (int block = 0; to.has(fmt::format("blocks.{}.1.weight", block)); ++block) {
    const std::string name = fmt::format("blocks.{}", block);
    to.line("y = x");
    to.depthwise(name + ".0.fn.0", 1, 2);
    to.gelu();
    to.batch_norm(name + ".0.fn.2");
    to.line("x = x + y");
    to.conv(name + ".1", 1, 0);
    to.gelu();
    to.batch_norm(name + ".3");
  }
  to.mean();
  to.linear("head");
}

void write_vit(Writer& to, const NetShape& /*shape*/) {
  constexpr std::int64_t kHeadWidth = 64;
  constexpr int kPatch = 16;
  const std::int64_t width = to.slot("cls_token").size;
  to.conv("patch_embed.proj", kPatch, 0);
  to.line("x = torch.transpose(torch.flatten(x, 2), 1, 2)");
  to.line("x = torch.cat([self.cls_token.expand([x.size(0), -1, -1]), x], 1) + self.pos_embed");
  for (int block = 0; to.has(fmt::format("blocks.{}.norm1.weight", block)); ++block) {
    const std::string name = fmt::format("blocks.{}", block);
    to.layer_norm(name + ".norm1", "y", "x");
    to.linear(name + ".attn.qkv", "y");
    to.line(fmt::format("y = y.reshape([y.size(0), y.size(1), 3, {}, {}]).permute([2, 0, 3, 1, 4])",
                        width / kHeadWidth, kHeadWidth));
    to.line("q, k, v = y[0], y[1], y[2]");
    to.line("y = torch.matmul(q * 0.125, torch.transpose(k, -2, -1))");  // 1 / sqrt(kHeadWidth)
    to.line("y = torch.transpose(torch.matmul(torch.softmax(y, -1), v), 1, 2)");
    to.line(fmt::format("y = y.reshape([y.size(0), y.size(1), {}])", width));
    to.linear(name + ".attn.proj", "y");
    to.line("x = x + y");
    to.layer_norm(name + ".norm2", "y", "x");
    to.linear(name + ".mlp.fc1", "y");
    to.gelu("y");
    to.linear(name + ".mlp.fc2", "y");
    to.line("x = x + y");
  }
  to.line("x = torch.select(x, 1, 0)");
  to.layer_norm("norm", "x", "x");
  to.linear("head");
}

using Write = void (*)(Writer&, const NetShape&);

const std::map<std::string, Write>& script_writers() {
  static const std::map<std::string, Write> known{
      {"lenet5", write_lenet5},       {"lenet5_valid", write_lenet5_valid},
      {"cnn4", write_cnn4},           {"cnn2", write_cnn2},
      {"resnet18", write_resnet},     {"resnet34", write_resnet},
      {"resnet50", write_resnet},     {"vgg11", write_vgg},
      {"vgg16_bn", write_vgg},        {"vgg16_bn_cifar", write_vgg},
      {"mobilenet", write_mobilenet}, {"convmixer_256_8", write_convmixer},
      {"vit_tiny", write_vit},        {"vit_small", write_vit}};
  return known;
}

}  // namespace

bool has_script_text(const std::string& model) {
  return script_writers().contains(model);
}

std::string script_text(const std::string& model, const NetShape& shape, const Layout& layout) {
  const std::map<std::string, Write>& known = script_writers();
  const auto found = known.find(model);
  if (found == known.end()) {
    throw Error(ErrorKind::internal, fmt::format("model '{}' has no TorchScript text", model));
  }
  Writer writer(layout);
  found->second(writer, shape);
  if (writer.has("projection.weight")) {  // between the network and a head of its own
    writer.relu();
    writer.linear("projection");
    writer.linear("output");
  }
  return writer.result();
}

}  // namespace winnow
