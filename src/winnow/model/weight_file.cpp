#include "winnow/model/weight_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/sha256.h"
#include "winnow/model/safetensors.h"

namespace winnow {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

constexpr std::size_t kNamedFaults = 5;

// Our transformers have timm's names and all other networks torchvision's. These are the parts of
// names that torchvision's transformers and timm's VGG call differently.
constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kAliases{{
    {"encoder.layers.encoder_layer_", "blocks."},
    {"encoder.pos_embedding", "pos_embed"},
    {"encoder.ln.", "norm."},
    {"class_token", "cls_token"},
    {"conv_proj.", "patch_embed.proj."},
    {".ln_1.", ".norm1."},
    {".ln_2.", ".norm2."},
    {".self_attention.in_proj_", ".attn.qkv."},
    {".self_attention.out_proj.", ".attn.proj."},
    {".mlp.linear_1.", ".mlp.fc1."},
    {".mlp.0.", ".mlp.fc1."},
    {".mlp.linear_2.", ".mlp.fc2."},
    {".mlp.3.", ".mlp.fc2."},
    {"heads.head.", "head."},
    {"pre_logits.fc1.", "classifier.0."},
    {"pre_logits.fc2.", "classifier.3."},
    {"head.fc.", "classifier.6."},
}};

std::string renamed(std::string name) {
  for (const auto& [theirs, ours] : kAliases) {
    if (const std::size_t at = name.find(theirs); at != std::string::npos) {
      name.replace(at, theirs.size(), ours);
    }
  }
  return name;
}

// The tensors under the names of the layout; those it does not know keep their own.
Tensors in_our_names(const Tensors& tensors, const Layout& layout) {
  Tensors ours;
  for (const auto& [name, tensor] : tensors) {
    const std::string other = renamed(name);
    const bool other_fits = layout.find(name) == nullptr && layout.find(other) != nullptr &&
                            !tensors.contains(other) && !ours.contains(other);
    ours[other_fits ? other : name] = tensor;
  }
  return ours;
}

// A linear layer may be written as the convolution that covers the whole map.
bool has_shape(const at::Tensor& tensor, const Slot& slot) {
  return tensor.sizes() == slot.shape ||
         (slot.shape.size() == 2 && tensor.dim() == 4 && tensor.flatten(1).sizes() == slot.shape);
}

bool has_type(const at::Tensor& tensor, const Slot& slot) {
  return slot.kind == SlotKind::counter
             ? tensor.scalar_type() == at::kLong || tensor.scalar_type() == at::kInt
             : tensor.is_floating_point();
}

// What is wrong with the tensor of a slot; empty when nothing is.
std::string fault_of(const Tensors& tensors, const Slot& slot) {
  const auto found = tensors.find(slot.name);
  if (found == tensors.end()) {
    return slot.kind == SlotKind::counter ? ""
                                          : fmt::format("{} is missing", quoted_name(slot.name));
  }
  const at::Tensor& tensor = found->second;
  if (has_shape(tensor, slot) && has_type(tensor, slot)) {
    return "";
  }
  return fmt::format("{} is {} {}, expected {} {}", quoted_name(slot.name),
                     dtype_name(tensor.scalar_type()), tensor.sizes().vec(),
                     slot.kind == SlotKind::counter ? "I64" : "F32", slot.shape);
}

// Whether the file's head fits the features but has other classes than the layout's.
bool has_other_classes(const Tensors& tensors, const Layout& layout, const std::string& head) {
  const auto weight = tensors.find(head + ".weight");
  const auto bias = tensors.find(head + ".bias");
  const Slot* ours = layout.find(head + ".weight");
  if (weight == tensors.end() || bias == tensors.end() || ours == nullptr) {
    return false;
  }
  const at::Tensor rows = weight->second.dim() > 2 ? weight->second.flatten(1) : weight->second;
  return rows.dim() == 2 && rows.size(1) == ours->shape[1] && rows.size(0) != ours->shape[0] &&
         bias->second.dim() == 1 && bias->second.size(0) == rows.size(0);
}

void require_fit(const Tensors& tensors, const Layout& layout, const std::string& path) {
  std::vector<std::string> faults;
  // Unknown names come first: they tell most about what a file is.
  for (const auto& [name, tensor] : tensors) {
    if (layout.find(name) == nullptr) {
      faults.push_back(fmt::format("{} is unknown", quoted_name(name)));
    }
  }
  for (const Slot& slot : layout.slots()) {
    if (std::string fault = fault_of(tensors, slot); !fault.empty()) {
      faults.push_back(std::move(fault));
    }
  }
  if (faults.empty()) {
    return;
  }
  const std::size_t more = faults.size() - std::min(faults.size(), kNamedFaults);
  faults.resize(faults.size() - more);
  throw Error(ErrorKind::data,
              fmt::format("{} does not fit the model: {}{}", path, fmt::join(faults, "; "),
                          more > 0 ? fmt::format("; and {} more", more) : ""),
              "it holds another network, or this one for images of another shape");
}

}  // namespace

LoadedWeights load_weights(const std::filesystem::path& path, const State& fresh,
                           const std::string& head_name) {
  const std::string content = read_file(path);
  const Layout& layout = *fresh.layout;
  Tensors tensors = in_our_names(decode_tensors(content, path.string()).tensors, layout);
  LoadedWeights loaded{fresh.to(at::kCPU).clone(), {sha256_hex(content), {}}};
  if (has_other_classes(tensors, layout, head_name)) {
    for (const char* part : {".weight", ".bias"}) {
      loaded.source.left_fresh.push_back(head_name + part);
      tensors[loaded.source.left_fresh.back()] =
          loaded.state.view(*layout.find(loaded.source.left_fresh.back())).clone();
    }
  }
  require_fit(tensors, layout, path.string());
  for (const Slot& slot : layout.slots()) {
    if (const auto found = tensors.find(slot.name); found != tensors.end()) {
      at::Tensor view = loaded.state.view(slot);
      view.copy_(found->second.view(slot.shape));
      if (!view.isfinite().all().item<bool>()) {
        throw Error(
            ErrorKind::data,
            fmt::format("{}: tensor {} holds values that are not finite numbers", path.string(),
                        quoted_name(slot.name)),
            "a run cannot start from them; was the model trained with too large a learning rate?");
      }
    }
  }
  return loaded;
}

}  // namespace winnow
