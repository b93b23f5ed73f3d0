#include "winnow/federation/memory.h"

#include <ATen/ATen.h>

namespace winnow {
namespace {

constexpr std::size_t kWorthSpilling = 4096;

// Calls `take` with every tensor of a memory that is worth it.
template <typename Memory, typename Take>
void each_large(Memory& memory, const Take& take) {
  const auto look_at = [&take](auto& tensor) {
    if (tensor.defined() && tensor.device().is_cpu() && tensor.nbytes() >= kWorthSpilling) {
      take(tensor);
    }
  };
  for (auto& [name, tensor] : memory.own.tensors) {
    look_at(tensor);
  }
  for (auto& [name, tensor] : memory.base.tensors) {
    look_at(tensor);
  }
  look_at(memory.model);
  look_at(memory.last_model);
}

}  // namespace

std::int64_t bytes_in_memory(const ClientMemory& memory) {
  std::int64_t bytes = 0;
  each_large(memory, [&](const at::Tensor& tensor) { bytes += Spill::bytes_in_memory(tensor); });
  return bytes;
}

void keep_within(ClientMemory& memory, Spill& spill, std::int64_t& in_memory) {
  each_large(memory, [&](at::Tensor& tensor) {
    const std::int64_t bytes = Spill::bytes_in_memory(tensor);
    if (in_memory + bytes > spill.options().limit) {
      tensor = spill.copy(tensor);
    } else {
      in_memory += bytes;
    }
  });
}

void drop_pages(const ClientMemory& memory) {
  each_large(memory, [](const at::Tensor& tensor) { Spill::drop_pages(tensor); });
}

}  // namespace winnow
