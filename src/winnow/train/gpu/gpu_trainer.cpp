#include "winnow/train/gpu/gpu_trainer.h"

#if WINNOW_WITH_CUDA

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <bit>

#include "winnow/train/gpu/graphs.h"
#include "winnow/train/gpu/steps.h"

namespace winnow {
namespace {

constexpr std::int64_t kBurst = 10;      // steps in one graph, at most
constexpr std::size_t kManyGraphs = 16;  // from here on only bursts of 1, 2, 4, 8 steps

}  // namespace

struct GpuTrainer::Parts {
  Parts(const MakeNet& make, const Feed& feed, bool low, at::Generator& dropout)
      : steps(make, feed, low, dropout), graphs(steps) {}

  gpu::Steps steps;
  gpu::Graphs graphs;
};

GpuTrainer::GpuTrainer(const MakeNet& make, const Feed& feed, bool low, at::Generator& dropout)
    : parts_(std::make_unique<Parts>(make, feed, low, dropout)) {}

GpuTrainer::~GpuTrainer() = default;

void GpuTrainer::add(const State& state) {
  const c10::cuda::CUDAStreamGuard guard(parts_->steps.stream());
  parts_->steps.add(state);
}

void GpuTrainer::begin(const std::vector<State>& starts) {
  gpu::Steps& steps = parts_->steps;
  const c10::cuda::CUDAStreamGuard guard(steps.stream());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    gpu::Replica& replica = steps.replica(i);
    replica.refresh(steps.stream().stream());
    replica.begin(starts[i].flat);
  }
}

void GpuTrainer::forget() {
  parts_->graphs.forget();
}

void GpuTrainer::on_stream(const std::function<void()>& work) const {
  const c10::cuda::CUDAStreamGuard guard(parts_->steps.stream());
  work();
}

at::Tensor GpuTrainer::run(const Plan& plan, const Objective& objective, const Stepping& how,
                           const std::function<void()>& before_step) {
  gpu::Steps& steps = parts_->steps;
  gpu::Graphs& graphs = parts_->graphs;
  const c10::cuda::CUDAStreamGuard guard(steps.stream());
  if (plan.batches.empty()) {
    return at::empty({0}, at::device(steps.device()).dtype(at::kFloat));
  }
  std::int64_t largest = 0;
  for (const Plan::Batch& batch : plan.batches) {
    largest = std::max(largest, batch.size);
  }
  if (!steps.has_room(plan.entries(), plan.views * largest)) {
    graphs.forget();
    steps.reserve(plan.entries(), plan.views * largest);
  }
  steps.upload(plan, how);
  gpu::GraphKey key{.augment = plan.jitter.defined(),
                    .mixup = plan.partner.defined(),
                    .head_only = how.rule.head_only,
                    .pulled = how.rule.proximal != 0.0,
                    .norm = how.rule.proximal != 0.0 && how.rule.pull == Pull::norm,
                    .drifts = how.rule.drift.defined(),
                    .momentum = how.momentum != 0.0,
                    .entries = objective.reads_entries(),
                    .views = plan.views,
                    .models = how.models,
                    .objective = objective.signature()};
  for (const std::size_t model : how.models) {
    steps.replica(model).prepare(key.momentum, key.pulled, how.rule.drift);
  }
  const std::size_t count = plan.batches.size();
  for (std::size_t step = 0; step < count;) {
    before_step();
    std::size_t same = 1;
    while (step + same < count && plan.batches[step + same].size == plan.batches[step].size &&
           same < static_cast<std::size_t>(kBurst)) {
      ++same;
    }
    if (graphs.size() >= kManyGraphs) {
      // Clients of many sizes: each number of steps would be captured on its own.
      same = std::bit_floor(same);
    }
    key.size = plan.batches[step].size;
    key.steps = static_cast<std::int64_t>(same);
    graphs.run(key, objective);
    step += same;
  }
  for (const std::size_t model : how.models) {
    steps.replica(model).store_statistics();
  }
  return steps.losses().narrow(0, 0, static_cast<std::int64_t>(count));
}

}  // namespace winnow

#endif
