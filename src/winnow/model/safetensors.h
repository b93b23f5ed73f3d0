// The safetensors format: named tensors behind a JSON header, readable by Python without any code
// of ours. Model weights and checkpoints are stored in it.
//
// A file is a little-endian 64-bit header length, the header {name: {dtype, shape, data_offsets}}
// with an optional "__metadata__" map of strings, and the tensors' bytes without gaps.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "winnow/model/state.h"

namespace winnow {

using Metadata = std::map<std::string, std::string>;

// The content of one file. Tensors are contiguous and on the CPU after reading; float32 (F32),
// float64 (F64), float16 (F16), bfloat16 (BF16), int64 (I64), int32 (I32) and uint8 (U8) are known.
struct TensorFile {
  std::map<std::string, at::Tensor> tensors;
  Metadata metadata;
};

// The bytes of a file; equal content gives equal bytes. Tensors may lie on any device and need not
// be contiguous. Throws Error(kind internal) for a dtype or a name that the format cannot hold, and
// Error(kind run) for a header that decode_tensors() would refuse as too long.
std::string encode_tensors(const TensorFile& file);

// Trusts nothing in `bytes`: any fault is an Error(kind data) that begins with `source`, the name
// of the file, and allocates no more than the bytes themselves justify.
TensorFile decode_tensors(std::string_view bytes, const std::string& source);

// A name as it may safely appear in a message, whatever a file calls its tensors.
std::string quoted_name(const std::string& name);

// The format's name of a dtype, one of those above.
std::string_view dtype_name(at::ScalarType type);

// As write_file_whole() does, tensor by tensor.
void save_tensors(const std::filesystem::path& path, const TensorFile& file);
TensorFile load_tensors(const std::filesystem::path& path);

// A model's state under its state-dict names; counters are stored as I64.
void save_state(const std::filesystem::path& path, const State& state,
                const Metadata& metadata = {});

// The state of a model with this layout, on the CPU. Throws Error(kind data) naming the first
// tensor that is missing, unknown, or of another shape or dtype.
State load_state(const std::filesystem::path& path, LayoutPtr layout);

}  // namespace winnow
