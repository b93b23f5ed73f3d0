#include "winnow/model/net.h"

#include <ATen/ATen.h>

#include "winnow/base/error.h"

namespace winnow {
namespace {

constexpr std::int64_t kCopyAlignment = 128;  // values

// What a tensor of `size` values takes in a copy.
std::int64_t in_copy(std::int64_t size) {
  return (size + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
}

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

std::vector<std::int64_t> Weights::copy_offsets(SlotKind kind) const {
  std::vector<std::int64_t> offsets;
  std::int64_t next = 0;
  const LayoutPtr layout = this->layout();
  for (const Slot& slot : layout->slots()) {
    if (slot.kind == kind) {
      offsets.push_back(next);
      next += in_copy(slot.size);
    }
  }
  return offsets;
}

std::int64_t Weights::copy_size(SlotKind kind) const {
  std::int64_t size = 0;
  const LayoutPtr layout = this->layout();
  for (const Slot& slot : layout->slots()) {
    size += slot.kind == kind ? in_copy(slot.size) : 0;
  }
  return size;
}

void Weights::bind_copy(const at::Tensor& flat, const at::Tensor& copy,
                        const at::Tensor& statistics, bool channels_last) {
  const LayoutPtr layout = this->layout();
  const std::vector<std::int64_t> parameter_offsets = copy_offsets(SlotKind::parameter);
  const std::vector<std::int64_t> buffer_offsets = copy_offsets(SlotKind::buffer);
  std::size_t parameter = 0;
  std::size_t buffer = 0;
  for (Declared& declared : declared_) {
    const Slot& slot = *layout->find(declared.slot.name);
    at::Tensor values = flat.narrow(0, slot.offset, slot.size);
    bool in_order = true;
    if (slot.kind == SlotKind::parameter) {
      const std::int64_t offset = parameter_offsets[parameter++];
      if (copy.scalar_type() == flat.scalar_type() || !declared.precise) {
        values = copy.narrow(0, offset, slot.size);
        in_order = !channels_last || slot.shape.size() != 4;
      }
    } else if (slot.kind == SlotKind::buffer) {
      values = statistics.narrow(0, buffer_offsets[buffer++], slot.size);
    }
    const auto& shape = slot.shape;
    declared.tensor =
        in_order
            ? values.view(shape).detach()
            : values.view({shape[0], shape[2], shape[3], shape[1]}).permute({0, 3, 1, 2}).detach();
    declared.tensor.set_requires_grad(slot.kind == SlotKind::parameter);
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
  classes_ = out;
  head_weight_ = weights_.add(name + ".weight", {out, in}, std::move(weight));
  head_bias_ = weights_.add(name + ".bias", {out}, std::move(bias));
}

at::Tensor Net::logits(const at::Tensor& features) const {
  return at::linear(features, *head_weight_, *head_bias_);
}

}  // namespace winnow
