// Tensors on the disk: what clients remember and what the server keeps of them, beyond the memory
// that it may take.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>

namespace winnow {

struct SpillOptions {
  std::int64_t limit = std::int64_t{2} << 30;  // bytes of tensors that may stay in memory
  std::filesystem::path folder = {};           // for the rest; empty: the system's temporary folder
};

// Copies of tensors in mapped files, which the kernel may drop from memory and read back. Many
// tensors share a file, so that a hundred thousand of them do not run out of mappings. The files
// have no name and go away with the last tensor in them, also when the process is killed. Tensors
// may be released by any thread; everything else belongs to one.
class Spill {
 public:
  explicit Spill(SpillOptions options = {});

  // A copy on the disk, on the CPU wherever the tensor came from; the pages it was written through
  // do not stay in memory. Throws Error(kind run) when a file cannot be made or the disk is full.
  at::Tensor copy(const at::Tensor& tensor);

  const SpillOptions& options() const { return options_; }
  static bool is_spilled(const at::Tensor& tensor);
  // The bytes that a tensor takes in memory: none where it is on the disk.
  static std::int64_t bytes_in_memory(const at::Tensor& tensor);
  // Lets go of the pages that reading it has brought into memory.
  static void drop_pages(const at::Tensor& tensor);

 private:
  class Arena;

  SpillOptions options_;
  std::shared_ptr<Arena> arena_;
};

}  // namespace winnow
