#include "winnow/train/gpu/replica.h"

#if WINNOW_WITH_CUDA

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

namespace winnow::gpu {
namespace {

// Convolutions over many channels run on tensor cores, which want the channels together.
bool has_wide_convolutions(const Layout& layout) {
  return std::ranges::any_of(layout.slots(), [](const Slot& slot) {
    return slot.shape.size() == 4 && slot.shape[2] > 1 && slot.shape[1] >= 32;
  });
}

}  // namespace

at::Tensor bytes_of(const void* data, std::size_t count) {
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(count)}, at::kByte);
  std::copy_n(static_cast<const std::uint8_t*>(data), count, bytes.data_ptr<std::uint8_t>());
  return bytes;
}

Replica::Replica(const MakeNet& make, const State& weights, bool low_precision)
    : net(make()),
      state(weights),
      low(low_precision),
      channels_last(has_wide_convolutions(*weights.layout)) {
  const auto floats = at::device(state.flat.device()).dtype(at::kFloat);
  copy = at::zeros({net->weights().copy_size()}, floats.dtype(low ? at::kBFloat16 : at::kFloat));
  statistics = at::zeros({net->weights().copy_size(SlotKind::buffer)}, floats);
  net->weights().bind_copy(state.flat, copy, statistics, channels_last);
  // Where the running statistics lie in the state and in their copy.
  std::vector<std::int64_t> from;
  std::vector<std::int64_t> to;
  const std::vector<std::int64_t> offsets = net->weights().copy_offsets(SlotKind::buffer);
  std::size_t number = 0;
  for (const Slot& slot : state.layout->slots()) {
    if (slot.kind == SlotKind::buffer) {
      for (std::int64_t i = 0; i < slot.size; ++i) {
        from.push_back(slot.offset + i);
        to.push_back(offsets[number] + i);
      }
      ++number;
    }
  }
  in_state = at::tensor(from, at::kLong).to(state.flat.device());
  in_copy = at::tensor(to, at::kLong).to(state.flat.device());
}

void Replica::begin(const at::Tensor& start) {
  origin = start;
  velocity_is_zero = false;
  anchor_is_origin = false;
}

void Replica::prepare(bool momentum, bool pulled, const at::Tensor& wanted_drift) {
  if (momentum && !velocity_is_zero) {
    made(velocity).zero_();
    velocity_is_zero = true;  // at the start, which is what counts
  }
  if (pulled && !anchor_is_origin) {
    made(anchor).copy_(origin.narrow(0, 0, state.layout->parameters()));
    anchor_is_origin = true;
  }
  if (wanted_drift.defined()) {
    made(drift).copy_(wanted_drift);
  }
}

at::Tensor& Replica::made(at::Tensor& buffer) const {
  if (!buffer.defined()) {
    buffer =
        at::empty({state.layout->parameters()}, at::device(state.flat.device()).dtype(at::kFloat));
  }
  return buffer;
}

void Replica::load_statistics() {
  if (in_copy.numel() > 0) {
    statistics.index_copy_(0, in_copy, state.flat.index_select(0, in_state));
  }
}

void Replica::store_statistics() {
  if (in_copy.numel() > 0) {
    state.flat.index_copy_(0, in_state, statistics.index_select(0, in_copy));
  }
}

const Replica::Trained& Replica::trained(bool head_only) {
  Trained& found = head_only ? head : all;
  if (!found.tensors.empty()) {
    return found;
  }
  std::vector<Chunk> chunks;
  const std::vector<std::int64_t> copy_offsets = net->weights().copy_offsets();
  std::size_t number = 0;
  for (const auto& [slot, tensor] : net->weights().parameters()) {
    const std::int64_t copy_offset = copy_offsets[number++];
    if (head_only && !slot.name.starts_with(net->head_name() + ".")) {
      continue;
    }
    Piece place;
    place.offset = slot.offset;
    place.copy_offset = copy_offset;
    if (slot.shape.size() == 4) {
      place.inner = static_cast<std::int32_t>(slot.shape[1]);
      place.area = static_cast<std::int32_t>(slot.shape[2] * slot.shape[3]);
      place.copy_permuted = channels_last && place.inner > 1 && place.area > 1 ? 1 : 0;
    }
    const auto piece = static_cast<std::int32_t>(found.pieces.size());
    const std::int64_t chunk = chunk_of(place);
    for (std::int64_t start = 0; start < slot.size; start += chunk) {
      chunks.push_back({piece, static_cast<std::int32_t>(start),
                        static_cast<std::int32_t>(std::min(chunk, slot.size - start))});
    }
    found.tensors.push_back(tensor);
    found.pieces.push_back(place);
  }
  found.chunk_count = static_cast<std::int32_t>(chunks.size());
  found.chunks = bytes_of(chunks.data(), chunks.size() * sizeof(Chunk)).to(state.flat.device());
  return found;
}

UpdateJob Replica::update_job(const Trained& parameters, const Piece* table) {
  UpdateJob job;
  job.pieces = table;
  job.chunks = reinterpret_cast<const Chunk*>(parameters.chunks.data_ptr());
  job.chunk_count = parameters.chunk_count;
  job.weights = state.flat.data_ptr<float>();
  job.copy = copy.data_ptr();
  job.copy_low = low;
  return job;
}

void Replica::refresh(StreamHandle stream) {
  const Trained& parameters = trained(false);
  if (!layout_table.defined()) {
    layout_table = bytes_of(parameters.pieces.data(), parameters.pieces.size() * sizeof(Piece))
                       .to(state.flat.device());
  }
  gpu::refresh(update_job(parameters, reinterpret_cast<const Piece*>(layout_table.data_ptr())),
               stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  load_statistics();
}

}  // namespace winnow::gpu

#endif
