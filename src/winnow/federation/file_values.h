// Models that lie in files: mapped to be read, so that of a large one hardly more is in memory than
// the part that is being read.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>

namespace winnow {

// The first `count` float values of an open file as a flat tensor, which may only be read: a write
// into it ends the program. The file may be closed and removed before the tensor goes; it must not
// be cut. Undefined where it cannot be mapped: errno says why. `count` is not 0.
at::Tensor map_file_values(int descriptor, std::int64_t count);

// Calls `visit` with all values of a flat, contiguous float tensor on the CPU, block by block in
// order, and with the place of each block. Of a tensor that lies in a file, mapped or spilled, what
// has been visited does not stay in memory.
void each_block(const at::Tensor& values,
                const std::function<void(std::size_t begin, std::span<const float> block)>& visit);

}  // namespace winnow
