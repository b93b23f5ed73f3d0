#include "winnow/model/state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "winnow/base/sha256.h"

namespace winnow {
namespace {

// Through page-locked memory, which the library keeps for the next time: a fresh copy of a large
// model would cost more than its hash.
at::Tensor on_host(const at::Tensor& flat) {
  return flat.is_cuda() ? at::empty(flat.sizes(), at::dtype(flat.scalar_type()).pinned_memory(true))
                              .copy_(flat)
                        : flat;
}

}  // namespace

Layout::Layout(std::vector<Slot> slots) : slots_(std::move(slots)) {
  std::ranges::stable_sort(slots_, std::less<>(), &Slot::kind);
  std::int64_t offset = 0;
  for (Slot& slot : slots_) {
    slot.size =
        std::accumulate(slot.shape.begin(), slot.shape.end(), std::int64_t{1}, std::multiplies<>());
    slot.offset = offset;
    offset += slot.size;
    switch (slot.kind) {
      case SlotKind::parameter:
        parameters_ += slot.size;
        break;
      case SlotKind::buffer:
        buffers_ += slot.size;
        break;
      case SlotKind::counter:
        counters_ += slot.size;
        break;
    }
  }
}

const Slot* Layout::find(std::string_view name) const {
  const auto found = std::ranges::find(slots_, name, &Slot::name);
  return found == slots_.end() ? nullptr : &*found;
}

std::string Layout::digest() const {
  Sha256 hash;
  for (const Slot& slot : slots_) {
    hash.update(slot.name);
    for (const std::int64_t extent : slot.shape) {
      hash.update(":");
      hash.update(std::to_string(extent));
    }
    hash.update("/");
    hash.update(std::to_string(static_cast<int>(slot.kind)));
    hash.update(";");
  }
  return hash.hex();
}

State State::zeros(LayoutPtr layout, at::Device device) {
  const std::int64_t total = layout->total();
  return {std::move(layout), at::zeros({total}, at::device(device).dtype(at::kFloat))};
}

State State::clone() const {
  return {layout, flat.clone()};
}

State State::to(at::Device device) const {
  return flat.device() == device ? *this : State{layout, flat.to(device)};
}

at::Tensor State::parameters() const {
  return flat.narrow(0, 0, layout->parameters());
}

at::Tensor State::buffers() const {
  return flat.narrow(0, layout->parameters(), layout->buffers());
}

at::Tensor State::counters() const {
  return flat.narrow(0, layout->parameters() + layout->buffers(), layout->counters());
}

at::Tensor State::view(const Slot& slot) const {
  return flat.narrow(0, slot.offset, slot.size).view(slot.shape);
}

std::string hash(const State& state) {
  const at::Tensor host = on_host(state.flat).contiguous();
  return sha256_in_pieces(std::as_bytes(
      std::span<const float>(host.data_ptr<float>(), static_cast<std::size_t>(host.numel()))));
}

}  // namespace winnow
