#if WINNOW_WITH_CUDA

#include "winnow/train/gpu/steps.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/autograd.h>

#include <span>

#include "winnow/train/gpu/gpu_loss.h"

namespace winnow::gpu {
namespace {

constexpr std::int64_t kSmallestBatch = 64;  // images that a fresh batch buffer holds

// A stream of the lane's own. Those of the library's pool are shared from the 33rd on, and what
// another lane does would become part of a capture. Never destroyed: the allocator knows it.
c10::cuda::CUDAStream new_stream(c10::DeviceIndex device) {
  const c10::cuda::CUDAGuard guard(device);
  cudaStream_t made = nullptr;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return c10::cuda::getStreamFromExternal(made, device);
}

// Makes gradients readable for the update, and says where they lie.
std::vector<Piece> pieces_of(const Replica::Trained& parameters, std::span<at::Tensor> gradients) {
  std::vector<Piece> pieces = parameters.pieces;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    at::Tensor& gradient = gradients[i];
    if (!gradient.defined()) {
      continue;
    }
    const bool channels_last = !gradient.is_contiguous() && gradient.dim() == 4 &&
                               gradient.is_contiguous(at::MemoryFormat::ChannelsLast);
    if (!channels_last) {
      gradient = gradient.contiguous();
    }
    const bool permuted = channels_last && pieces[i].inner > 1 && pieces[i].area > 1;
    pieces[i].gradient = gradient.data_ptr();
    pieces[i].gradient_permuted = permuted ? 1 : 0;
    pieces[i].low = gradient.scalar_type() == at::kBFloat16 ? 1 : 0;
  }
  return pieces;
}

}  // namespace

Steps::Steps(const MakeNet& make, const Feed& feed, bool low, at::Generator& dropout)
    : make_(make),
      feed_(feed),
      low_(low),
      dropout_(dropout),
      stream_(new_stream(feed.device().index())) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  lambda_now_ = at::zeros({}, at::device(device()).dtype(at::kFloat));
  step_now_ = at::zeros({1}, at::device(device()).dtype(at::kLong));
  one_full_ = gpu_one(device());
  one_low_ = one_full_.to(at::kBFloat16);
}

void Steps::add(const State& state) {
  replicas_.push_back(std::make_unique<Replica>(make_, state, low_));
}

bool Steps::has_room(std::int64_t entries, std::int64_t images) const {
  return entries <= plan_.entries() && images_.defined() && images <= images_.size(0);
}

void Steps::reserve(std::int64_t entries, std::int64_t images) {
  if (entries > plan_.entries()) {
    plan_.reserve(entries, device());
    losses_ = at::zeros({plan_.entries()}, at::device(device()).dtype(at::kFloat));
  }
  if (!images_.defined() || images > images_.size(0)) {
    std::int64_t rows = kSmallestBatch;
    while (rows < images) {
      rows *= 2;
    }
    const auto longs = at::device(device()).dtype(at::kLong);
    images_ = at::zeros({rows, feed_.channels(), feed_.stored_height(), feed_.stored_width()},
                        longs.dtype(low_ ? at::kBFloat16 : at::kFloat));
    if (replicas_.front()->channels_last) {
      images_ = images_.contiguous(at::MemoryFormat::ChannelsLast);
    }
    labels_ = at::zeros({rows}, longs);
    partner_labels_ = at::zeros_like(labels_);
    entry_numbers_ = at::zeros_like(labels_);
  }
}

void Steps::enqueue_batch(const GraphKey& key, std::int64_t ahead) {
  BatchJob job;
  job.images = feed_.images().data_ptr<std::uint8_t>();
  job.channels = static_cast<std::int32_t>(feed_.channels());
  job.height = static_cast<std::int32_t>(feed_.stored_height());
  job.width = static_cast<std::int32_t>(feed_.stored_width());
  job.padding = static_cast<std::int32_t>(feed_.padding());
  job.scale = feed_.scale().data_ptr<float>();
  job.shift = feed_.shift().data_ptr<float>();
  job.index = plan_.index();
  job.label = plan_.label();
  job.jitter = key.augment ? plan_.jitter() : nullptr;
  job.views = static_cast<std::int32_t>(key.views);
  job.view_stride = static_cast<std::int32_t>(plan_.entries());
  job.partner = key.mixup ? plan_.partner() : nullptr;
  job.lambda = plan_.lambda();
  job.cursor = plan_.cursor();
  job.ahead = static_cast<std::int32_t>(ahead);
  job.size = static_cast<std::int32_t>(key.size);
  job.out = images_.data_ptr();
  job.low = low_;
  job.channels_last = replicas_.front()->channels_last;
  job.labels = labels_.data_ptr<std::int64_t>();
  job.partner_labels = partner_labels_.data_ptr<std::int64_t>();
  job.lambda_now = lambda_now_.data_ptr<float>();
  if (key.entries) {
    job.entries = entry_numbers_.data_ptr<std::int64_t>();
    job.step = step_now_.data_ptr<std::int64_t>();
  }
  gpu::make_batch(job, stream_.stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

Batch Steps::batch_of(const GraphKey& key) const {
  Batch batch{.images = feed_.fitted(images_.narrow(0, 0, key.views * key.size), key.augment),
              .labels = labels_.narrow(0, 0, key.size)};
  if (key.mixup) {
    batch.partner_labels = partner_labels_.narrow(0, 0, key.size);
    batch.lambda = lambda_now_;
  }
  if (key.entries) {
    batch.entries = entry_numbers_.narrow(0, 0, key.size);
    batch.step = step_now_;
  }
  return batch;
}

void Steps::enqueue(const GraphKey& key, const Objective& objective, std::int64_t ahead,
                    const Piece* table, std::vector<Piece>& places, bool fill) {
  enqueue_batch(key, ahead);
  Models models{.nets = {}, .training = {.training = true, .dropout = &dropout_}};
  for (const auto& replica : replicas_) {
    models.nets.push_back(replica->net.get());
  }
  std::vector<at::Tensor> tensors;
  for (const std::size_t model : key.models) {
    const Replica::Trained& parameters = replicas_[model]->trained(key.head_only);
    tensors.insert(tensors.end(), parameters.tensors.begin(), parameters.tensors.end());
  }
  const at::Tensor value = objective.loss(batch_of(key), models);
  const at::Tensor& one = value.scalar_type() == at::kBFloat16 ? one_low_ : one_full_;
  std::vector<at::Tensor> gradients =
      torch::autograd::grad({value}, tensors, {one}, std::nullopt, false, /*allow_unused=*/true);
  const c10::NoGradGuard no_gradient;
  const at::Tensor written = value.detach().to(at::kFloat);
  std::span<at::Tensor> rest(gradients);
  std::vector<at::Tensor> distances;  // live until the step is enqueued
  for (const std::size_t model : key.models) {
    Replica& replica = *replicas_[model];
    const Replica::Trained& parameters = replica.trained(key.head_only);
    const std::vector<Piece> pieces = pieces_of(parameters, rest.first(parameters.tensors.size()));
    rest = rest.subspan(parameters.tensors.size());
    places.insert(places.end(), pieces.begin(), pieces.end());
    if (fill) {
      C10_CUDA_CHECK(cudaMemcpyAsync(const_cast<Piece*>(table), pieces.data(),
                                     pieces.size() * sizeof(Piece), cudaMemcpyHostToDevice,
                                     stream_.stream()));
    }
    UpdateJob step = replica.update_job(parameters, table);
    step.velocity = key.momentum ? replica.velocity.data_ptr<float>() : nullptr;
    step.knobs = plan_.knobs();
    step.cursor = plan_.cursor();
    step.ahead = static_cast<std::int32_t>(ahead);
    if (model == key.models.front()) {
      step.loss = written.data_ptr<float>();
      step.losses = losses_.data_ptr<float>();
    }
    if (key.pulled) {
      step.anchor = replica.anchor.data_ptr<float>();
      step.pull = plan_.pull();
      if (key.norm) {
        distances.push_back((replica.state.parameters() - replica.anchor).norm());
        step.distance = distances.back().data_ptr<float>();
      }
    }
    if (key.drifts) {
      step.drift = replica.drift.data_ptr<float>();
    }
    gpu::update(step, stream_.stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    table += pieces.size();
  }
}

void Steps::enqueue_advance(const GraphKey& key) {
  gpu::advance(plan_.cursor(), static_cast<std::int32_t>(key.steps),
               static_cast<std::int32_t>(key.steps * key.size), stream_.stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

std::size_t Steps::table_bytes(const GraphKey& key) {
  std::size_t pieces = 0;
  for (const std::size_t model : key.models) {
    pieces += replicas_[model]->trained(key.head_only).pieces.size();
  }
  return pieces * sizeof(Piece);
}

}  // namespace winnow::gpu

#endif
