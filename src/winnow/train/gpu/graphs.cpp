#if WINNOW_WITH_CUDA

#include "winnow/train/gpu/graphs.h"

#include <ATen/ATen.h>

#include <mutex>
#include <vector>

namespace winnow::gpu {
namespace {

// Captures are made one at a time, whatever the number of lanes.
std::mutex& capture_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

Graphs::Graphs(Steps& steps) : steps_(steps), pool_(at::cuda::graph_pool_handle()) {}

void Graphs::forget() {
  seen_.clear();
  if (graphs_.empty()) {
    return;
  }
  steps_.stream().synchronize();
  // The library lists all graphs in one place, without a lock of its own.
  const std::lock_guard lock(capture_mutex());
  graphs_.clear();
  // A pool whose graphs are all gone cannot be captured into again.
  pool_ = at::cuda::graph_pool_handle();
}

void Graphs::abandon(at::cuda::CUDAGraph& graph) {
  try {
    graph.capture_end();
  } catch (const std::exception&) {
    cudaGetLastError();  // the error that counts is on its way
  }
  pool_ = at::cuda::graph_pool_handle();
}

void Graphs::capture(const GraphKey& key, const Objective& objective) {
  auto made = std::make_unique<Captured>();
  const std::size_t bytes = steps_.table_bytes(key);
  made->pieces = at::zeros({static_cast<std::int64_t>(bytes) * key.steps},
                           at::device(steps_.device()).dtype(at::kByte));
  std::vector<Piece> places;
  steps_.stream().synchronize();
  {
    const std::lock_guard lock(capture_mutex());
    made->graph.register_generator_state(steps_.dropout());
    made->graph.capture_begin(pool_, cudaStreamCaptureModeRelaxed);
    try {
      for (std::int64_t step = 0; step < key.steps; ++step) {
        const auto* table = reinterpret_cast<const Piece*>(made->pieces.data_ptr<std::uint8_t>() +
                                                           static_cast<std::size_t>(step) * bytes);
        steps_.enqueue(key, objective, step, table, places, false);
      }
      steps_.enqueue_advance(key);
    } catch (...) {
      abandon(made->graph);
      throw;
    }
    made->graph.capture_end();
  }
  made->pieces.copy_(bytes_of(places.data(), places.size() * sizeof(Piece)));
  graphs_[key] = std::move(made);
}

void Graphs::run(const GraphKey& key, const Objective& objective) {
  const auto found = graphs_.find(key);
  if (found != graphs_.end()) {
    found->second->graph.replay();
    return;
  }
  if (seen_[key]++ == 0) {
    const auto bytes = static_cast<std::int64_t>(steps_.table_bytes(key));
    if (!scratch_.defined() || scratch_.numel() < bytes) {
      scratch_ = at::zeros({bytes}, at::device(steps_.device()).dtype(at::kByte));
    }
    for (std::int64_t step = 0; step < key.steps; ++step) {
      std::vector<Piece> places;
      steps_.enqueue(key, objective, step, reinterpret_cast<const Piece*>(scratch_.data_ptr()),
                     places, true);
    }
    steps_.enqueue_advance(key);
    return;
  }
  capture(key, objective);
  graphs_.at(key)->graph.replay();
}

}  // namespace winnow::gpu

#endif
