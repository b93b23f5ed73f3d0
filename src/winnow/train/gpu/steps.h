// What a lane's steps consist of on a GPU: the next batch gathered by index, augmented, normalised
// and mixed up, forward, loss, backward and update, enqueued on the lane's stream.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "winnow/model/net.h"
#include "winnow/train/feed.h"
#include "winnow/train/gpu/gpu_kernels.h"
#include "winnow/train/gpu/plan_buffer.h"
#include "winnow/train/gpu/replica.h"
#include "winnow/train/objective.h"

namespace winnow::gpu {

// What a graph depends on, besides the addresses of the buffers.
struct GraphKey {
  std::int64_t size = 0;   // of each batch
  std::int64_t steps = 0;  // in the graph
  bool augment = false;
  bool mixup = false;
  bool head_only = false;
  bool pulled = false;
  bool norm = false;
  bool drifts = false;
  bool momentum = false;
  bool entries = false;
  std::int64_t views = 1;
  std::vector<std::size_t> models;  // those that take steps
  std::string objective;

  auto operator<=>(const GraphKey&) const = default;
};

class Steps {
 public:
  // As GpuTrainer's.
  Steps(const MakeNet& make, const Feed& feed, bool low, at::Generator& dropout);

  const c10::cuda::CUDAStream& stream() const { return stream_; }
  at::Device device() const { return feed_.device(); }
  at::Generator& dropout() { return dropout_; }

  void add(const State& state);
  Replica& replica(std::size_t model) { return *replicas_[model]; }

  // Buffers for plans of that many entries and batches of that many images. Where there is no room
  // yet they get new addresses, which makes all captured graphs useless.
  bool has_room(std::int64_t entries, std::int64_t images) const;
  void reserve(std::int64_t entries, std::int64_t images);
  void upload(const Plan& plan, const Stepping& how) { plan_.upload(plan, how, stream_); }
  // Of each step since upload(), on the device.
  const at::Tensor& losses() const { return losses_; }

  // Enqueues the step that lies `ahead` of the cursor. Appends the gradients' places to `places`;
  // the updates read them from `table`, which is filled afterwards when capturing and through
  // `fill` when not.
  void enqueue(const GraphKey& key, const Objective& objective, std::int64_t ahead,
               const Piece* table, std::vector<Piece>& places, bool fill);
  void enqueue_advance(const GraphKey& key);
  std::size_t table_bytes(const GraphKey& key);

 private:
  void enqueue_batch(const GraphKey& key, std::int64_t ahead);
  Batch batch_of(const GraphKey& key) const;

  const MakeNet& make_;
  const Feed& feed_;
  bool low_;
  at::Generator& dropout_;
  c10::cuda::CUDAStream stream_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  at::Tensor lambda_now_, step_now_;
  at::Tensor one_full_, one_low_;  // the gradient of a loss with respect to itself
  at::Tensor images_, labels_, partner_labels_, entry_numbers_;
  PlanBuffer plan_;
  at::Tensor losses_;
};

}  // namespace winnow::gpu
