#include "winnow/train/gpu/gpu_trainer.h"

#include <ATen/ATen.h>

#include "winnow/base/error.h"

#if WINNOW_WITH_CUDA

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "winnow/train/gpu/gpu_kernels.h"
#include "winnow/train/gpu/gpu_loss.h"

namespace winnow {
namespace {

constexpr std::int64_t kSmallestPlan = 1 << 13;  // entries that a fresh plan buffer holds
constexpr std::int64_t kSmallestBatch = 64;      // images that a fresh batch buffer holds
constexpr std::int64_t kBurst = 10;              // steps in one graph, at most
constexpr std::size_t kManyGraphs = 16;          // from here on only bursts of 1, 2, 4, 8 steps
constexpr std::int64_t kKnobs = 3;
constexpr std::int64_t kViews = 2;  // of a sample in a batch, at most

// Captures are made one at a time, whatever the number of lanes.
std::mutex& capture_mutex() {
  static std::mutex mutex;
  return mutex;
}

// A stream of the lane's own. Those of the library's pool are shared from the 33rd on, and what
// another lane does would become part of a capture. Never destroyed: the allocator knows it.
c10::cuda::CUDAStream new_stream(c10::DeviceIndex device) {
  const c10::cuda::CUDAGuard guard(device);
  cudaStream_t made = nullptr;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return c10::cuda::getStreamFromExternal(made, device);
}

// Convolutions over many channels run on tensor cores, which want the channels together.
bool has_wide_convolutions(const Layout& layout) {
  return std::ranges::any_of(layout.slots(), [](const Slot& slot) {
    return slot.shape.size() == 4 && slot.shape[2] > 1 && slot.shape[1] >= 32;
  });
}

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

// Bytes of the plan buffer: one copy brings a whole training to the device.
struct PlanSpace {
  std::int64_t entries = 0;
  std::int64_t at_index() const { return 0; }
  std::int64_t at_label() const { return 4 * entries; }
  std::int64_t at_partner() const { return 8 * entries; }
  std::int64_t at_lambda() const { return 12 * entries; }
  std::int64_t at_pull() const { return 16 * entries; }
  std::int64_t at_knobs() const { return 20 * entries; }
  std::int64_t at_cursor() const { return at_knobs() + 4 * kKnobs + 4; }
  std::int64_t at_jitter() const { return at_cursor() + 8; }
  std::int64_t bytes() const { return at_jitter() + 3 * kViews * entries; }
};

struct Captured {
  at::cuda::CUDAGraph graph;
  at::Tensor pieces;  // on the device, a table per step
};

at::Tensor bytes_of(const void* data, std::size_t count) {
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(count)}, at::kByte);
  std::copy_n(static_cast<const std::uint8_t*>(data), count, bytes.data_ptr<std::uint8_t>());
  return bytes;
}

// A model that steps are taken on: a network of its own over a copy of the lane's weights.
struct Replica {
  Replica(const MakeNet& make, const State& weights, bool low_precision)
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

  // A training starts, from `start`.
  void begin(const at::Tensor& start) {
    origin = start;
    velocity_is_zero = false;
    anchor_is_origin = false;
  }
  // What a kind of step needs besides the weights, at addresses that stay.
  void prepare(bool momentum, bool pulled, const at::Tensor& wanted_drift) {
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
  at::Tensor& made(at::Tensor& buffer) const {
    if (!buffer.defined()) {
      buffer = at::empty({state.layout->parameters()},
                         at::device(state.flat.device()).dtype(at::kFloat));
    }
    return buffer;
  }

  void load_statistics() {
    if (in_copy.numel() > 0) {
      statistics.index_copy_(0, in_copy, state.flat.index_select(0, in_state));
    }
  }
  void store_statistics() {
    if (in_copy.numel() > 0) {
      state.flat.index_copy_(0, in_state, statistics.index_select(0, in_copy));
    }
  }

  // The parameters that are trained, and how an update is cut into chunks.
  struct Trained {
    std::vector<at::Tensor> tensors;
    std::vector<gpu::Piece> pieces;  // without gradients
    at::Tensor chunks;               // on the device
    std::int32_t chunk_count = 0;
  };
  const Trained& trained(bool head_only);

  gpu::UpdateJob update_job(const Trained& parameters, const gpu::Piece* table) {
    gpu::UpdateJob job;
    job.pieces = table;
    job.chunks = reinterpret_cast<const gpu::Chunk*>(parameters.chunks.data_ptr());
    job.chunk_count = parameters.chunk_count;
    job.weights = state.flat.data_ptr<float>();
    job.copy = copy.data_ptr();
    job.copy_low = low;
    return job;
  }

  // Makes the network's copy equal to the state.
  void refresh(gpu::StreamHandle stream) {
    const Trained& parameters = trained(false);
    if (!layout_table.defined()) {
      layout_table =
          bytes_of(parameters.pieces.data(), parameters.pieces.size() * sizeof(gpu::Piece))
              .to(state.flat.device());
    }
    gpu::refresh(
        update_job(parameters, reinterpret_cast<const gpu::Piece*>(layout_table.data_ptr())),
        stream);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    load_statistics();
  }

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
};

const Replica::Trained& Replica::trained(bool head_only) {
  Trained& found = head_only ? head : all;
  if (!found.tensors.empty()) {
    return found;
  }
  std::vector<gpu::Chunk> chunks;
  const std::vector<std::int64_t> copy_offsets = net->weights().copy_offsets();
  std::size_t number = 0;
  for (const auto& [slot, tensor] : net->weights().parameters()) {
    const std::int64_t copy_offset = copy_offsets[number++];
    if (head_only && !slot.name.starts_with(net->head_name() + ".")) {
      continue;
    }
    gpu::Piece place;
    place.offset = slot.offset;
    place.copy_offset = copy_offset;
    if (slot.shape.size() == 4) {
      place.inner = static_cast<std::int32_t>(slot.shape[1]);
      place.area = static_cast<std::int32_t>(slot.shape[2] * slot.shape[3]);
      place.copy_permuted = channels_last && place.inner > 1 && place.area > 1 ? 1 : 0;
    }
    const auto piece = static_cast<std::int32_t>(found.pieces.size());
    const std::int64_t chunk = gpu::chunk_of(place);
    for (std::int64_t start = 0; start < slot.size; start += chunk) {
      chunks.push_back({piece, static_cast<std::int32_t>(start),
                        static_cast<std::int32_t>(std::min(chunk, slot.size - start))});
    }
    found.tensors.push_back(tensor);
    found.pieces.push_back(place);
  }
  found.chunk_count = static_cast<std::int32_t>(chunks.size());
  found.chunks =
      bytes_of(chunks.data(), chunks.size() * sizeof(gpu::Chunk)).to(state.flat.device());
  return found;
}

}  // namespace

struct GpuTrainer::Parts {
  Parts(const MakeNet& maker, const Feed& images_of, bool low_precision, at::Generator& generator)
      : make(maker),
        feed(images_of),
        low(low_precision),
        dropout(generator),
        stream(new_stream(images_of.device().index())),
        pool(at::cuda::graph_pool_handle()) {
    const c10::cuda::CUDAStreamGuard guard(stream);
    lambda_now = at::zeros({}, at::device(feed.device()).dtype(at::kFloat));
    step_now = at::zeros({1}, at::device(feed.device()).dtype(at::kLong));
    one_full = gpu_one(feed.device());
    one_low = one_full.to(at::kBFloat16);
  }

  std::uint8_t* on_device(std::int64_t at) { return plan.data_ptr<std::uint8_t>() + at; }
  template <typename T>
  T* plan_at(std::int64_t at) {
    return reinterpret_cast<T*>(on_device(at));
  }

  // Buffers for plans of that many entries and batches of that size; new addresses make all
  // captured graphs useless.
  void reserve(std::int64_t entries, std::int64_t batch, std::int64_t views) {
    if (entries > space.entries) {
      space.entries = kSmallestPlan;
      while (space.entries < entries) {
        space.entries *= 2;
      }
      forget();
      const auto bytes = at::device(feed.device()).dtype(at::kByte);
      plan = at::zeros({space.bytes()}, bytes);
      packed = at::zeros({space.bytes()}, at::kByte).pin_memory();
      losses = at::zeros({space.entries}, at::device(feed.device()).dtype(at::kFloat));
    }
    if (!images.defined() || views * batch > images.size(0)) {
      std::int64_t rows = kSmallestBatch;
      while (rows < views * batch) {
        rows *= 2;
      }
      forget();
      const auto longs = at::device(feed.device()).dtype(at::kLong);
      images = at::zeros({rows, feed.channels(), feed.stored_height(), feed.stored_width()},
                         longs.dtype(low ? at::kBFloat16 : at::kFloat));
      if (replicas.front()->channels_last) {
        images = images.contiguous(at::MemoryFormat::ChannelsLast);
      }
      labels = at::zeros({rows}, longs);
      partner_labels = at::zeros_like(labels);
      entry_numbers = at::zeros_like(labels);
    }
  }

  void forget() {
    seen.clear();
    if (graphs.empty()) {
      return;
    }
    stream.synchronize();
    // The library lists all graphs in one place, without a lock of its own.
    const std::lock_guard lock(capture_mutex());
    graphs.clear();
    // A pool whose graphs are all gone cannot be captured into again.
    pool = at::cuda::graph_pool_handle();
  }

  // Brings the plan to the device in one copy.
  void upload(const Plan& from, const Stepping& how) {
    uploaded.synchronize();  // the plan before has left the host
    auto* bytes = packed.data_ptr<std::uint8_t>();
    const std::int64_t entries = from.index.numel();
    const auto put = [&](const at::Tensor& values, std::int64_t at) {
      auto* to = reinterpret_cast<std::int32_t*>(bytes + at);
      const auto* source = values.data_ptr<std::int64_t>();
      std::transform(source, source + entries, to,
                     [](std::int64_t value) { return static_cast<std::int32_t>(value); });
    };
    put(from.index, space.at_index());
    put(from.label, space.at_label());
    if (from.partner.defined()) {
      put(from.partner, space.at_partner());
      std::copy_n(from.lambda.data_ptr<float>(), from.lambda.numel(),
                  reinterpret_cast<float*>(bytes + space.at_lambda()));
    }
    if (from.jitter.defined()) {
      const auto* source = from.jitter.data_ptr<std::int64_t>();
      for (std::int64_t view = 0; view < from.views; ++view) {
        std::transform(source + 3 * view * entries, source + 3 * (view + 1) * entries,
                       bytes + space.at_jitter() + 3 * view * space.entries,
                       [](std::int64_t value) { return static_cast<std::uint8_t>(value); });
      }
    }
    auto* pull = reinterpret_cast<float*>(bytes + space.at_pull());
    for (const Plan::Batch& batch : from.batches) {
      const bool spared = how.rule.spare_first_batch && batch.opens_epoch;
      *pull++ = spared ? 0.0F : static_cast<float>(how.rule.proximal);
    }
    auto* knobs = reinterpret_cast<float*>(bytes + space.at_knobs());
    knobs[0] = static_cast<float>(how.lr);
    knobs[1] = static_cast<float>(how.momentum);
    knobs[2] = static_cast<float>(how.weight_decay);
    const gpu::Cursor start;
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&start), sizeof(start),
                bytes + space.at_cursor());
    plan.copy_(packed, /*non_blocking=*/true);
    uploaded.record(stream);
  }

  void enqueue_batch(const GraphKey& key, std::int64_t ahead) {
    gpu::BatchJob job;
    job.images = feed.images().data_ptr<std::uint8_t>();
    job.channels = static_cast<std::int32_t>(feed.channels());
    job.height = static_cast<std::int32_t>(feed.stored_height());
    job.width = static_cast<std::int32_t>(feed.stored_width());
    job.padding = static_cast<std::int32_t>(feed.padding());
    job.scale = feed.scale().data_ptr<float>();
    job.shift = feed.shift().data_ptr<float>();
    job.index = plan_at<std::int32_t>(space.at_index());
    job.label = plan_at<std::int32_t>(space.at_label());
    job.jitter = key.augment ? on_device(space.at_jitter()) : nullptr;
    job.views = static_cast<std::int32_t>(key.views);
    job.view_stride = static_cast<std::int32_t>(space.entries);
    job.partner = key.mixup ? plan_at<std::int32_t>(space.at_partner()) : nullptr;
    job.lambda = plan_at<float>(space.at_lambda());
    job.cursor = plan_at<gpu::Cursor>(space.at_cursor());
    job.ahead = static_cast<std::int32_t>(ahead);
    job.size = static_cast<std::int32_t>(key.size);
    job.out = images.data_ptr();
    job.low = low;
    job.channels_last = replicas.front()->channels_last;
    job.labels = labels.data_ptr<std::int64_t>();
    job.partner_labels = partner_labels.data_ptr<std::int64_t>();
    job.lambda_now = lambda_now.data_ptr<float>();
    if (key.entries) {
      job.entries = entry_numbers.data_ptr<std::int64_t>();
      job.step = step_now.data_ptr<std::int64_t>();
    }
    gpu::make_batch(job, stream.stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  Batch batch_of(const GraphKey& key) const {
    Batch batch{.images = feed.fitted(images.narrow(0, 0, key.views * key.size), key.augment),
                .labels = labels.narrow(0, 0, key.size)};
    if (key.mixup) {
      batch.partner_labels = partner_labels.narrow(0, 0, key.size);
      batch.lambda = lambda_now;
    }
    if (key.entries) {
      batch.entries = entry_numbers.narrow(0, 0, key.size);
      batch.step = step_now;
    }
    return batch;
  }

  // Makes gradients readable for the update, and says where they lie.
  static std::vector<gpu::Piece> pieces_of(const Replica::Trained& parameters,
                                           std::span<at::Tensor> gradients) {
    std::vector<gpu::Piece> pieces = parameters.pieces;
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

  // Enqueues the step that lies `ahead` of the cursor. Appends the gradients' places to `places`;
  // the updates read them from `table`, which is filled afterwards when capturing and through
  // `fill` when not.
  void enqueue(const GraphKey& key, const Objective& objective, std::int64_t ahead,
               const gpu::Piece* table, std::vector<gpu::Piece>& places, bool fill) {
    enqueue_batch(key, ahead);
    Models models{.nets = {}, .training = {.training = true, .dropout = &dropout}};
    for (const auto& replica : replicas) {
      models.nets.push_back(replica->net.get());
    }
    std::vector<at::Tensor> tensors;
    for (const std::size_t model : key.models) {
      const Replica::Trained& parameters = replicas[model]->trained(key.head_only);
      tensors.insert(tensors.end(), parameters.tensors.begin(), parameters.tensors.end());
    }
    const at::Tensor value = objective.loss(batch_of(key), models);
    const at::Tensor& one = value.scalar_type() == at::kBFloat16 ? one_low : one_full;
    std::vector<at::Tensor> gradients =
        torch::autograd::grad({value}, tensors, {one}, std::nullopt, false, /*allow_unused=*/true);
    const c10::NoGradGuard no_gradient;
    const at::Tensor written = value.detach().to(at::kFloat);
    std::span<at::Tensor> rest(gradients);
    std::vector<at::Tensor> distances;  // live until the step is enqueued
    for (const std::size_t model : key.models) {
      Replica& replica = *replicas[model];
      const Replica::Trained& parameters = replica.trained(key.head_only);
      const std::vector<gpu::Piece> pieces =
          pieces_of(parameters, rest.first(parameters.tensors.size()));
      rest = rest.subspan(parameters.tensors.size());
      places.insert(places.end(), pieces.begin(), pieces.end());
      if (fill) {
        C10_CUDA_CHECK(cudaMemcpyAsync(const_cast<gpu::Piece*>(table), pieces.data(),
                                       pieces.size() * sizeof(gpu::Piece), cudaMemcpyHostToDevice,
                                       stream.stream()));
      }
      gpu::UpdateJob step = replica.update_job(parameters, table);
      step.velocity = key.momentum ? replica.velocity.data_ptr<float>() : nullptr;
      step.knobs = plan_at<float>(space.at_knobs());
      step.cursor = plan_at<gpu::Cursor>(space.at_cursor());
      step.ahead = static_cast<std::int32_t>(ahead);
      if (model == key.models.front()) {
        step.loss = written.data_ptr<float>();
        step.losses = losses.data_ptr<float>();
      }
      if (key.pulled) {
        step.anchor = replica.anchor.data_ptr<float>();
        step.pull = plan_at<float>(space.at_pull());
        if (key.norm) {
          distances.push_back((replica.state.parameters() - replica.anchor).norm());
          step.distance = distances.back().data_ptr<float>();
        }
      }
      if (key.drifts) {
        step.drift = replica.drift.data_ptr<float>();
      }
      gpu::update(step, stream.stream());
      C10_CUDA_KERNEL_LAUNCH_CHECK();
      table += pieces.size();
    }
  }

  void enqueue_advance(const GraphKey& key) {
    gpu::advance(plan_at<gpu::Cursor>(space.at_cursor()), static_cast<std::int32_t>(key.steps),
                 static_cast<std::int32_t>(key.steps * key.size), stream.stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  std::size_t table_bytes(const GraphKey& key) {
    std::size_t pieces = 0;
    for (const std::size_t model : key.models) {
      pieces += replicas[model]->trained(key.head_only).pieces.size();
    }
    return pieces * sizeof(gpu::Piece);
  }

  // Leaves the stream usable after an error in the middle of a capture.
  void abandon(at::cuda::CUDAGraph& graph) {
    try {
      graph.capture_end();
    } catch (const std::exception&) {
      cudaGetLastError();  // the error that counts is on its way
    }
    pool = at::cuda::graph_pool_handle();
  }

  void capture(const GraphKey& key, const Objective& objective) {
    auto made = std::make_unique<Captured>();
    const std::size_t bytes = table_bytes(key);
    made->pieces = at::zeros({static_cast<std::int64_t>(bytes) * key.steps},
                             at::device(feed.device()).dtype(at::kByte));
    std::vector<gpu::Piece> places;
    stream.synchronize();
    {
      const std::lock_guard lock(capture_mutex());
      made->graph.register_generator_state(dropout);
      made->graph.capture_begin(pool, cudaStreamCaptureModeRelaxed);
      try {
        for (std::int64_t step = 0; step < key.steps; ++step) {
          const auto* table = reinterpret_cast<const gpu::Piece*>(
              made->pieces.data_ptr<std::uint8_t>() + static_cast<std::size_t>(step) * bytes);
          enqueue(key, objective, step, table, places, false);
        }
        enqueue_advance(key);
      } catch (...) {
        abandon(made->graph);
        throw;
      }
      made->graph.capture_end();
    }
    made->pieces.copy_(bytes_of(places.data(), places.size() * sizeof(gpu::Piece)));
    graphs[key] = std::move(made);
  }

  // Runs key.steps steps: the first time a kind of step is seen eagerly, which also warms up the
  // libraries below, from the second time on as a graph.
  void run(const GraphKey& key, const Objective& objective) {
    const auto found = graphs.find(key);
    if (found != graphs.end()) {
      found->second->graph.replay();
      return;
    }
    if (seen[key]++ == 0) {
      if (!scratch.defined() || scratch.numel() < static_cast<std::int64_t>(table_bytes(key))) {
        scratch = at::zeros({static_cast<std::int64_t>(table_bytes(key))},
                            at::device(feed.device()).dtype(at::kByte));
      }
      for (std::int64_t step = 0; step < key.steps; ++step) {
        std::vector<gpu::Piece> places;
        enqueue(key, objective, step, reinterpret_cast<const gpu::Piece*>(scratch.data_ptr()),
                places, true);
      }
      enqueue_advance(key);
      return;
    }
    capture(key, objective);
    graphs.at(key)->graph.replay();
  }

  const MakeNet& make;
  const Feed& feed;
  bool low;
  at::Generator& dropout;
  c10::cuda::CUDAStream stream;
  at::cuda::MempoolId_t pool;
  std::vector<std::unique_ptr<Replica>> replicas;
  at::Tensor lambda_now, step_now;
  at::Tensor one_full, one_low;  // the gradient of a loss with respect to itself
  at::Tensor images, labels, partner_labels, entry_numbers;
  PlanSpace space;
  at::Tensor plan, packed, losses, scratch;
  at::cuda::CUDAEvent uploaded;
  std::map<GraphKey, std::unique_ptr<Captured>> graphs;
  std::map<GraphKey, int> seen;
};

GpuTrainer::GpuTrainer(const MakeNet& make, const Feed& feed, bool low, at::Generator& dropout)
    : parts_(std::make_unique<Parts>(make, feed, low, dropout)) {}

GpuTrainer::~GpuTrainer() = default;

void GpuTrainer::add(const State& state) {
  const c10::cuda::CUDAStreamGuard guard(parts_->stream);
  parts_->replicas.push_back(std::make_unique<Replica>(parts_->make, state, parts_->low));
}

void GpuTrainer::begin(const std::vector<State>& starts) {
  const c10::cuda::CUDAStreamGuard guard(parts_->stream);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    Replica& replica = *parts_->replicas[i];
    replica.refresh(parts_->stream.stream());
    replica.begin(starts[i].flat);
  }
}

void GpuTrainer::forget() {
  parts_->forget();
}

void GpuTrainer::on_stream(const std::function<void()>& work) const {
  const c10::cuda::CUDAStreamGuard guard(parts_->stream);
  work();
}

at::Tensor GpuTrainer::run(const Plan& plan, const Objective& objective, const Stepping& how,
                           const std::function<void()>& before_step) {
  Parts& parts = *parts_;
  const c10::cuda::CUDAStreamGuard guard(parts.stream);
  if (plan.batches.empty()) {
    return at::empty({0}, at::device(parts.feed.device()).dtype(at::kFloat));
  }
  std::int64_t largest = 0;
  for (const Plan::Batch& batch : plan.batches) {
    largest = std::max(largest, batch.size);
  }
  parts.reserve(plan.entries(), largest, plan.views);
  parts.upload(plan, how);
  GraphKey key{.augment = plan.jitter.defined(),
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
    parts.replicas[model]->prepare(key.momentum, key.pulled, how.rule.drift);
  }
  const std::size_t steps = plan.batches.size();
  for (std::size_t step = 0; step < steps;) {
    before_step();
    std::size_t same = 1;
    while (step + same < steps && plan.batches[step + same].size == plan.batches[step].size &&
           same < static_cast<std::size_t>(kBurst)) {
      ++same;
    }
    if (parts.graphs.size() >= kManyGraphs) {
      // Clients of many sizes: each number of steps would be captured on its own.
      same = std::bit_floor(same);
    }
    key.size = plan.batches[step].size;
    key.steps = static_cast<std::int64_t>(same);
    parts.run(key, objective);
    step += same;
  }
  for (const std::size_t model : how.models) {
    parts.replicas[model]->store_statistics();
  }
  return parts.losses.narrow(0, 0, static_cast<std::int64_t>(steps));
}

void wait_for(at::Device device) {
  if (device.is_cuda()) {
    c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
  }
}

void go_first(at::Device device) {
  if (!device.is_cuda()) {
    return;
  }
  // Always the same one of a device, so that what one session leaves behind is done before the next
  // reads it.
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, c10::cuda::CUDAStream> streams;
  const std::scoped_lock lock(mutex);
  auto stream = streams.find(device.index());
  if (stream == streams.end()) {
    stream = streams
                 .emplace(device.index(),
                          c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device.index()))
                 .first;
  }
  c10::cuda::setCurrentCUDAStream(stream->second);
}

void keep_until_read(const at::Tensor& tensor) {
  if (tensor.is_cuda()) {
    tensor.record_stream(c10::cuda::getCurrentCUDAStream(tensor.device().index()).unwrap());
  }
}

void reset_peak_device_memory(at::Device device) {
  if (device.is_cuda()) {
    c10::cuda::CUDACachingAllocator::emptyCache();
    c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
  }
}

std::int64_t peak_device_memory(at::Device device) {
  constexpr std::size_t kOfAllKinds = 0;
  return device.is_cuda() ? c10::cuda::CUDACachingAllocator::getDeviceStats(device.index())
                                .reserved_bytes[kOfAllKinds]
                                .peak
                          : 0;
}

}  // namespace winnow

#endif
