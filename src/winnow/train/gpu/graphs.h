// The steps of a lane as CUDA graphs: captured when a kind of step is met again, then replayed.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstddef>
#include <map>
#include <memory>

#include "winnow/train/gpu/steps.h"
#include "winnow/train/objective.h"

namespace winnow::gpu {

class Graphs {
 public:
  // `steps` must outlive it.
  explicit Graphs(Steps& steps);

  std::size_t size() const { return graphs_.size(); }
  // Runs key.steps steps: the first time a kind of step is seen eagerly, which also warms up the
  // libraries below, from the second time on as a graph.
  void run(const GraphKey& key, const Objective& objective);
  // Drops all of them.
  void forget();

 private:
  struct Captured {
    at::cuda::CUDAGraph graph;
    at::Tensor pieces;  // on the device, a table per step
  };
  void capture(const GraphKey& key, const Objective& objective);
  // Leaves the stream usable after an error in the middle of a capture.
  void abandon(at::cuda::CUDAGraph& graph);

  Steps& steps_;
  at::cuda::MempoolId_t pool_;
  at::Tensor scratch_;  // the table of steps that are not captured
  std::map<GraphKey, std::unique_ptr<Captured>> graphs_;
  std::map<GraphKey, int> seen_;
};

}  // namespace winnow::gpu
