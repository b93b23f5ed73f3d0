// The calling thread and a GPU: waiting for it, going first on it, and the memory it holds. On a
// CPU there is nothing to do.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace winnow {

// Waits until the device has done what the calling thread has asked of it; nothing on a CPU.
void wait_for(at::Device device);
// From here on what the calling thread asks of this GPU goes before the work of the lanes. The
// device has an index.
void go_first(at::Device device);
// The memory of a tensor that another thread made is not used again before the device has done what
// the calling thread has asked of it until the tensor is dropped.
void keep_until_read(const at::Tensor& tensor);
// Gives memory that is not in use back to a GPU and counts the peak anew; nothing on a CPU.
void reset_peak_device_memory(at::Device device);
// Bytes that the library held of a GPU at most, used or kept for later; 0 on a CPU. The device has
// an index.
std::int64_t peak_device_memory(at::Device device);

}  // namespace winnow
