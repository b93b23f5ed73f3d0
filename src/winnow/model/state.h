// Model state: all parameters and buffers of a model as one flat float32 buffer plus a layout.
// Copy, average, distance and the optimiser's step are then single operations.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace winnow {

enum class SlotKind {
  parameter,  // trained
  buffer,     // running statistics
  counter,    // whole numbers such as num_batches_tracked, held as float
};

// One named tensor inside the flat buffer.
struct Slot {
  std::string name;
  std::vector<std::int64_t> shape;
  SlotKind kind = SlotKind::parameter;
  std::int64_t offset = 0;
  std::int64_t size = 0;

  bool operator==(const Slot&) const = default;
};

// Where each tensor lies: parameters first, then buffers, then counters, each in order of
// declaration.
class Layout {
 public:
  // Takes slots in any order of kinds and assigns sizes and offsets.
  explicit Layout(std::vector<Slot> slots);

  const std::vector<Slot>& slots() const { return slots_; }
  std::int64_t parameters() const { return parameters_; }  // number of trained values
  std::int64_t buffers() const { return buffers_; }
  std::int64_t counters() const { return counters_; }
  std::int64_t total() const { return parameters_ + buffers_ + counters_; }
  const Slot* find(std::string_view name) const;
  // A digest of names, shapes and kinds: two models are interchangeable when it agrees.
  std::string digest() const;

  bool operator==(const Layout&) const = default;

 private:
  std::vector<Slot> slots_;
  std::int64_t parameters_ = 0;
  std::int64_t buffers_ = 0;
  std::int64_t counters_ = 0;
};

using LayoutPtr = std::shared_ptr<const Layout>;

// A value: copying the struct shares the buffer; clone() copies it.
struct State {
  LayoutPtr layout;
  at::Tensor flat;  // float32, contiguous, [layout->total()]

  [[nodiscard]] static State zeros(LayoutPtr layout, at::Device device = at::kCPU);
  [[nodiscard]] State clone() const;
  [[nodiscard]] State to(at::Device device) const;
  at::Tensor parameters() const;  // views
  at::Tensor buffers() const;
  at::Tensor counters() const;
  at::Tensor view(const Slot& slot) const;
  std::int64_t bytes() const { return 4 * layout->total(); }
};

// A digest of the flat buffer's bytes, sha256_in_pieces(): equal exactly when two states are equal
// bit for bit.
std::string hash(const State& state);

}  // namespace winnow
