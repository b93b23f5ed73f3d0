#include "winnow/model/net.h"

#include <ATen/ATen.h>

#include "winnow/base/error.h"

namespace winnow {
namespace {

constexpr std::int64_t kCopyAlignment = 128;  // values

}  // namespace

const at::Tensor* Weights::add(std::string name, std::vector<std::int64_t> shape, Init init,
                               SlotKind kind, bool precise) {
  declared_.push_back({{std::move(name), std::move(shape), kind, 0, 0}, std::move(init), precise});
  return &declared_.back().tensor;
}

LayoutPtr Weights::layout() const {
  std::vector<Slot> slots;
  slots.reserve(declared_.size());
  for (const Declared& declared : declared_) {
    slots.push_back(declared.slot);
  }
  return std::make_shared<const Layout>(std::move(slots));
}

void Weights::bind(const at::Tensor& flat, const at::Tensor& gradient) {
  const LayoutPtr layout = this->layout();
  if (flat.numel() != layout->total() ||
      (gradient.defined() && gradient.numel() < layout->parameters())) {
    throw Error(ErrorKind::internal, "a network was bound to a buffer of the wrong size");
  }
  for (Declared& declared : declared_) {
    const Slot& slot = *layout->find(declared.slot.name);
    // detach() makes each view a leaf of its own, so gradients stop here.
    declared.tensor = flat.narrow(0, slot.offset, slot.size).view(slot.shape).detach();
    if (gradient.defined() && slot.kind == SlotKind::parameter) {
      declared.tensor.set_requires_grad(true);
      declared.tensor.mutable_grad() =
          gradient.narrow(0, slot.offset, slot.size).view(slot.shape).detach();
    }
  }
}

std::vector<std::int64_t> Weights::copy_offsets() const {
  std::vector<std::int64_t> offsets;
  std::int64_t next = 0;
  for (const auto& [slot, tensor] : parameters()) {
    offsets.push_back(next);
    next += (slot.size + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
  }
  return offsets;
}

std::int64_t Weights::copy_size() const {
  std::int64_t size = 0;
  for (const auto& [slot, tensor] : parameters()) {
    size += (slot.size + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
  }
  return size;
}

void Weights::bind_copy(const at::Tensor& flat, const at::Tensor& copy, bool channels_last) {
  const LayoutPtr layout = this->layout();
  const std::vector<std::int64_t> offsets = copy_offsets();
  std::size_t place = 0;
  for (Declared& declared : declared_) {
    const Slot& slot = *layout->find(declared.slot.name);
    const bool is_parameter = slot.kind == SlotKind::parameter;
    const bool from_copy =
        is_parameter && (copy.scalar_type() == flat.scalar_type() || !declared.precise);
    const at::Tensor values = from_copy ? copy.narrow(0, offsets[place], slot.size)
                                        : flat.narrow(0, slot.offset, slot.size);
    place += is_parameter ? 1 : 0;
    if (from_copy && channels_last && slot.shape.size() == 4) {
      const auto& shape = slot.shape;
      declared.tensor =
          values.view({shape[0], shape[2], shape[3], shape[1]}).permute({0, 3, 1, 2}).detach();
    } else {
      declared.tensor = values.view(slot.shape).detach();
    }
    declared.tensor.set_requires_grad(is_parameter);
  }
}

std::vector<std::pair<Slot, at::Tensor>> Weights::parameters() const {
  std::vector<std::pair<Slot, at::Tensor>> found;
  const LayoutPtr layout = this->layout();
  for (const Declared& declared : declared_) {
    if (declared.slot.kind == SlotKind::parameter) {
      found.emplace_back(*layout->find(declared.slot.name), declared.tensor);
    }
  }
  return found;
}

State Weights::initial(std::uint64_t seed) const {
  State state = State::zeros(layout());
  for (const Declared& declared : declared_) {
    const Slot& slot = *state.layout->find(declared.slot.name);
    Stream stream(stream_key(seed, "init " + slot.name, {}));
    declared.init(stream, std::span<float>(state.flat.data_ptr<float>() + slot.offset,
                                           static_cast<std::size_t>(slot.size)));
  }
  return state;
}

void Net::declare_head(const std::string& name, std::int64_t in, std::int64_t out, Init weight,
                       Init bias) {
  head_name_ = name;
  head_weight_ = weights_.add(name + ".weight", {out, in}, std::move(weight));
  head_bias_ = weights_.add(name + ".bias", {out}, std::move(bias));
}

at::Tensor Net::logits(const at::Tensor& features) const {
  return at::linear(features, *head_weight_, *head_bias_);
}

}  // namespace winnow
