// A model that captured steps are taken on: a network of its own over a copy of the lane's weights,
// in the layout and the precision that suit its kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "winnow/model/net.h"
#include "winnow/train/gpu/gpu_kernels.h"

namespace winnow::gpu {

struct Replica {
  Replica(const MakeNet& make, const State& weights, bool low_precision);

  // A training starts, from `start`.
  void begin(const at::Tensor& start);
  // What a kind of step needs besides the weights, at addresses that stay.
  void prepare(bool momentum, bool pulled, const at::Tensor& wanted_drift);

  void load_statistics();
  void store_statistics();

  // The parameters that are trained, and how an update is cut into chunks.
  struct Trained {
    std::vector<at::Tensor> tensors;
    std::vector<Piece> pieces;  // without gradients
    at::Tensor chunks;          // on the device
    std::int32_t chunk_count = 0;
  };
  const Trained& trained(bool head_only);

  UpdateJob update_job(const Trained& parameters, const Piece* table);

  // Makes the network's copy equal to the state.
  void refresh(StreamHandle stream);

  std::unique_ptr<Net> net;
  State state;
  bool low;
  bool channels_last;
  at::Tensor copy;        // of the weights, as the network reads them
  at::Tensor statistics;  // of batch norm, likewise
  at::Tensor in_state, in_copy;
  at::Tensor velocity, anchor, drift;  // where steps ask for them
  at::Tensor origin;                   // the weights that the training started from
  bool velocity_is_zero = false;
  bool anchor_is_origin = false;
  at::Tensor layout_table;
  Trained all, head;

 private:
  at::Tensor& made(at::Tensor& buffer) const;
};

// As a tensor on the CPU.
at::Tensor bytes_of(const void* data, std::size_t count);

}  // namespace winnow::gpu
