#include "winnow/train/gpu_trainer.h"

#include <ATen/ATen.h>

#include "winnow/base/error.h"

#if WINNOW_WITH_CUDA

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "winnow/train/gpu_kernels.h"

namespace winnow {
namespace {

constexpr std::int64_t kSmallestPlan = 1 << 15;  // entries that a fresh plan buffer holds
constexpr std::int64_t kBurst = 10;              // steps in one graph, at most
constexpr std::int64_t kKnobs = 3;

// Captures are made one at a time, whatever the number of lanes.
std::mutex& capture_mutex() {
  static std::mutex mutex;
  return mutex;
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
  double label_smoothing = 0.0;
  double temperature = 1.0;

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
  std::int64_t bytes() const { return at_jitter() + 3 * entries; }
};

struct Captured {
  at::cuda::CUDAGraph graph;
  at::Tensor pieces;  // on the device, a table per step
};

}  // namespace

struct GpuTrainer::Parts {
  Parts(Net& used, const Feed& images, State& weights, bool low_precision, at::Generator& generator)
      : net(used),
        feed(images),
        state(weights),
        low(low_precision),
        // Float32 batch norm with channels last loads running statistics four at a time, and these
        // need not start at such a place in the flat state.
        channels_last(has_wide_convolutions(*weights.layout) &&
                      (low_precision || weights.layout->buffers() == 0)),
        dropout(generator),
        stream(c10::cuda::getStreamFromPool(false, images.device().index())),
        pool(at::cuda::graph_pool_handle()) {
    const c10::cuda::CUDAStreamGuard guard(stream);
    const auto floats = at::device(feed.device()).dtype(at::kFloat);
    copy = at::zeros({net.weights().copy_size()}, floats.dtype(low ? at::kBFloat16 : at::kFloat));
    net.weights().bind_copy(state.flat, copy, channels_last);
    velocity = at::zeros({state.layout->parameters()}, floats);
    anchor = at::zeros_like(velocity);
    drift = at::zeros_like(velocity);
    lambda_now = at::zeros({}, floats);
    reserve(1, 1);
  }

  std::uint8_t* on_device(std::int64_t at) { return plan.data_ptr<std::uint8_t>() + at; }
  template <typename T>
  T* plan_at(std::int64_t at) {
    return reinterpret_cast<T*>(on_device(at));
  }

  // Buffers for plans of that many entries and batches of that size; new addresses make all
  // captured graphs useless.
  void reserve(std::int64_t entries, std::int64_t batch) {
    if (entries > space.entries) {
      space.entries = kSmallestPlan;
      while (space.entries < entries) {
        space.entries *= 2;
      }
      graphs.clear();
      seen.clear();
      const auto bytes = at::device(feed.device()).dtype(at::kByte);
      plan = at::zeros({space.bytes()}, bytes);
      packed = at::zeros({space.bytes()}, at::kByte).pin_memory();
      losses = at::zeros({space.entries}, at::device(feed.device()).dtype(at::kFloat));
    }
    if (!images.defined() || batch > images.size(0)) {
      graphs.clear();
      seen.clear();
      images = at::zeros({batch, feed.channels(), feed.stored_height(), feed.stored_width()},
                         at::device(feed.device()).dtype(copy.scalar_type()));
      if (channels_last) {
        images = images.contiguous(at::MemoryFormat::ChannelsLast);
      }
      labels = at::zeros({batch}, at::device(feed.device()).dtype(at::kLong));
      partner_labels = at::zeros_like(labels);
    }
  }

  // Brings the plan to the device in one copy.
  void upload(const Plan& from, const TrainOptions& options, double lr, const LocalRule& rule) {
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
      std::transform(source, source + 3 * entries, bytes + space.at_jitter(),
                     [](std::int64_t value) { return static_cast<std::uint8_t>(value); });
    }
    auto* pull = reinterpret_cast<float*>(bytes + space.at_pull());
    const std::int64_t epoch = entries / options.epochs;
    for (const Plan::Batch& batch : from.batches) {
      const bool spared = rule.spare_first_batch && batch.start % epoch == 0;
      *pull++ = spared ? 0.0F : static_cast<float>(rule.proximal);
    }
    auto* knobs = reinterpret_cast<float*>(bytes + space.at_knobs());
    knobs[0] = static_cast<float>(lr);
    knobs[1] = static_cast<float>(options.momentum);
    knobs[2] = static_cast<float>(options.weight_decay);
    const gpu::Cursor start;
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&start), sizeof(start),
                bytes + space.at_cursor());
    plan.copy_(packed, /*non_blocking=*/true);
  }

  // The parameters that are trained, and how an update is cut into chunks.
  struct Trained {
    std::vector<Slot> slots;
    std::vector<at::Tensor> tensors;
    std::vector<gpu::Piece> pieces;  // without gradients
    at::Tensor chunks;               // on the device
    std::int32_t chunk_count = 0;
  };
  const Trained& trained(bool head_only) {
    Trained& found = head_only ? head : all;
    if (found.tensors.empty()) {
      std::vector<gpu::Chunk> chunks;
      const std::vector<std::int64_t> copy_offsets = net.weights().copy_offsets();
      std::size_t number = 0;
      for (const auto& [slot, tensor] : net.weights().parameters()) {
        const std::int64_t copy_offset = copy_offsets[number++];
        if (head_only && !slot.name.starts_with(net.head_name() + ".")) {
          continue;
        }
        const auto piece = static_cast<std::int32_t>(found.slots.size());
        for (std::int64_t start = 0; start < slot.size; start += gpu::kChunk) {
          chunks.push_back(
              {piece, static_cast<std::int32_t>(start),
               static_cast<std::int32_t>(std::min<std::int64_t>(gpu::kChunk, slot.size - start))});
        }
        gpu::Piece place;
        place.offset = slot.offset;
        place.copy_offset = copy_offset;
        if (slot.shape.size() == 4) {
          place.inner = static_cast<std::int32_t>(slot.shape[1]);
          place.area = static_cast<std::int32_t>(slot.shape[2] * slot.shape[3]);
          place.copy_permuted = channels_last ? 1 : 0;
        }
        found.slots.push_back(slot);
        found.tensors.push_back(tensor);
        found.pieces.push_back(place);
      }
      found.chunk_count = static_cast<std::int32_t>(chunks.size());
      found.chunks = bytes_of(chunks.data(), chunks.size() * sizeof(gpu::Chunk)).to(feed.device());
    }
    return found;
  }

  static at::Tensor bytes_of(const void* data, std::size_t count) {
    at::Tensor bytes = at::empty({static_cast<std::int64_t>(count)}, at::kByte);
    std::copy_n(static_cast<const std::uint8_t*>(data), count, bytes.data_ptr<std::uint8_t>());
    return bytes;
  }

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
  void refresh_copy() {
    const Trained& parameters = trained(false);
    if (!layout_table.defined()) {
      layout_table =
          bytes_of(parameters.pieces.data(), parameters.pieces.size() * sizeof(gpu::Piece))
              .to(feed.device());
    }
    gpu::refresh(
        update_job(parameters, reinterpret_cast<const gpu::Piece*>(layout_table.data_ptr())),
        stream.stream());
  }

  // Enqueues one step. Appends the gradients' places to `pieces`; the update reads them from
  // `table`, which is filled afterwards when capturing and through `fill` when not.
  void enqueue(const GraphKey& key, const Loss& loss, const gpu::Piece* table,
               std::vector<gpu::Piece>& pieces, bool fill) {
    gpu::BatchJob job;
    job.images = feed.images().data_ptr<std::uint8_t>();
    job.channels = static_cast<std::int32_t>(feed.channels());
    job.height = static_cast<std::int32_t>(feed.stored_height());
    job.width = static_cast<std::int32_t>(feed.stored_width());
    job.padding = static_cast<std::int32_t>(kCropPadding);
    job.scale = feed.scale().data_ptr<float>();
    job.shift = feed.shift().data_ptr<float>();
    job.index = plan_at<std::int32_t>(space.at_index());
    job.label = plan_at<std::int32_t>(space.at_label());
    job.jitter = key.augment ? on_device(space.at_jitter()) : nullptr;
    job.partner = key.mixup ? plan_at<std::int32_t>(space.at_partner()) : nullptr;
    job.lambda = plan_at<float>(space.at_lambda());
    job.cursor = plan_at<gpu::Cursor>(space.at_cursor());
    job.size = static_cast<std::int32_t>(key.size);
    job.out = images.data_ptr();
    job.low = low;
    job.channels_last = channels_last;
    job.labels = labels.data_ptr<std::int64_t>();
    job.partner_labels = partner_labels.data_ptr<std::int64_t>();
    job.lambda_now = lambda_now.data_ptr<float>();
    gpu::make_batch(job, stream.stream());

    const Trained& parameters = trained(key.head_only);
    Batch batch{.images = feed.resized(images.narrow(0, 0, key.size)),
                .labels = labels.narrow(0, 0, key.size)};
    if (key.mixup) {
      batch.partner_labels = partner_labels.narrow(0, 0, key.size);
      batch.lambda = lambda_now;
    }
    const at::Tensor value = loss(batch);
    std::vector<at::Tensor> gradients = torch::autograd::grad(
        {value}, parameters.tensors, {}, std::nullopt, false, /*allow_unused=*/true);
    const c10::NoGradGuard no_gradient;
    const std::size_t first = pieces.size();
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      at::Tensor& gradient = gradients[i];
      gpu::Piece piece = parameters.pieces[i];
      if (gradient.defined()) {
        const bool permuted = !gradient.is_contiguous() && gradient.dim() == 4 &&
                              gradient.is_contiguous(at::MemoryFormat::ChannelsLast);
        if (!permuted) {
          gradient = gradient.contiguous();
        }
        piece.gradient = gradient.data_ptr();
        piece.gradient_permuted = permuted ? 1 : 0;
        piece.low = gradient.scalar_type() == at::kBFloat16 ? 1 : 0;
      }
      pieces.push_back(piece);
    }
    if (fill) {
      C10_CUDA_CHECK(cudaMemcpyAsync(const_cast<gpu::Piece*>(table), pieces.data() + first,
                                     gradients.size() * sizeof(gpu::Piece), cudaMemcpyHostToDevice,
                                     stream.stream()));
    }
    at::Tensor distance;
    gpu::UpdateJob step = update_job(parameters, table);
    step.velocity = velocity.data_ptr<float>();
    step.knobs = plan_at<float>(space.at_knobs());
    step.cursor = job.cursor;
    if (key.pulled) {
      step.anchor = anchor.data_ptr<float>();
      step.pull = plan_at<float>(space.at_pull());
      if (key.norm) {
        distance = (state.parameters() - anchor).norm();
        step.distance = distance.data_ptr<float>();
      }
    }
    if (key.drifts) {
      step.drift = drift.data_ptr<float>();
    }
    gpu::update(step, stream.stream());
    const at::Tensor written = value.detach().to(at::kFloat);
    gpu::advance(plan_at<gpu::Cursor>(space.at_cursor()), written.data_ptr<float>(),
                 losses.data_ptr<float>(), static_cast<std::int32_t>(key.size), stream.stream());
  }

  std::size_t table_bytes(const GraphKey& key) {
    return trained(key.head_only).tensors.size() * sizeof(gpu::Piece);
  }

  void capture(const GraphKey& key, const Loss& loss) {
    auto made = std::make_unique<Captured>();
    const std::size_t bytes = table_bytes(key);
    made->pieces = at::zeros({static_cast<std::int64_t>(bytes) * key.steps},
                             at::device(feed.device()).dtype(at::kByte));
    std::vector<gpu::Piece> pieces;
    stream.synchronize();
    {
      const std::lock_guard lock(capture_mutex());
      made->graph.register_generator_state(dropout);
      made->graph.capture_begin(pool, cudaStreamCaptureModeRelaxed);
      for (std::int64_t step = 0; step < key.steps; ++step) {
        const auto* table = reinterpret_cast<const gpu::Piece*>(
            made->pieces.data_ptr<std::uint8_t>() + static_cast<std::size_t>(step) * bytes);
        enqueue(key, loss, table, pieces, false);
      }
      made->graph.capture_end();
    }
    made->pieces.copy_(bytes_of(pieces.data(), pieces.size() * sizeof(gpu::Piece)));
    graphs[key] = std::move(made);
  }

  // Runs key.steps steps: the first time a kind of step is seen eagerly, which also warms up the
  // libraries below, from the second time on as a graph.
  void run(const GraphKey& key, const Loss& loss) {
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
        std::vector<gpu::Piece> pieces;
        enqueue(key, loss, reinterpret_cast<const gpu::Piece*>(scratch.data_ptr()), pieces, true);
      }
      return;
    }
    capture(key, loss);
    graphs.at(key)->graph.replay();
  }

  Net& net;
  const Feed& feed;
  State& state;
  bool low;
  bool channels_last;
  at::Generator& dropout;
  c10::cuda::CUDAStream stream;
  at::cuda::MempoolId_t pool;
  at::Tensor copy;  // of the weights, as the network reads them
  at::Tensor layout_table;
  at::Tensor velocity, anchor, drift, lambda_now;
  at::Tensor images, labels, partner_labels;
  PlanSpace space;
  at::Tensor plan, packed, losses, scratch;
  Trained all, head;
  std::map<GraphKey, std::unique_ptr<Captured>> graphs;
  std::map<GraphKey, int> seen;
};

GpuTrainer::GpuTrainer(Net& net, const Feed& feed, State& state, bool low, at::Generator& dropout)
    : parts_(std::make_unique<Parts>(net, feed, state, low, dropout)) {}

GpuTrainer::~GpuTrainer() = default;

void GpuTrainer::on_stream(const std::function<void()>& work) const {
  const c10::cuda::CUDAStreamGuard guard(parts_->stream);
  work();
}

at::Tensor GpuTrainer::train(const Plan& plan, const TrainOptions& options, double lr,
                             const LocalRule& rule, const Loss& loss,
                             const std::function<void()>& before_step) {
  Parts& parts = *parts_;
  const c10::cuda::CUDAStreamGuard guard(parts.stream);
  parts.reserve(plan.index.numel(), options.batch_size);
  parts.upload(plan, options, lr, rule);
  parts.refresh_copy();
  parts.velocity.zero_();
  GraphKey key{.augment = plan.jitter.defined(),
               .mixup = plan.partner.defined(),
               .head_only = rule.head_only,
               .pulled = rule.proximal != 0.0,
               .norm = rule.proximal != 0.0 && rule.pull == Pull::norm,
               .drifts = rule.drift.defined(),
               .label_smoothing = options.label_smoothing,
               .temperature = options.temperature};
  if (key.pulled) {
    parts.anchor.copy_(parts.state.parameters());
  }
  if (key.drifts) {
    parts.drift.copy_(rule.drift);
  }
  const std::size_t steps = plan.batches.size();
  for (std::size_t step = 0; step < steps;) {
    before_step();
    std::size_t same = 1;
    while (step + same < steps && plan.batches[step + same].size == plan.batches[step].size &&
           same < static_cast<std::size_t>(kBurst)) {
      ++same;
    }
    key.size = plan.batches[step].size;
    key.steps = static_cast<std::int64_t>(same);
    parts.run(key, loss);
    step += same;
  }
  return parts.losses.narrow(0, 0, static_cast<std::int64_t>(steps));
}

void wait_for(at::Device device) {
  if (device.is_cuda()) {
    c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
  }
}

}  // namespace winnow

#else

namespace winnow {

struct GpuTrainer::Parts {};

GpuTrainer::GpuTrainer(Net& /*net*/, const Feed& /*feed*/, State& /*state*/, bool /*low*/,
                       at::Generator& /*dropout*/) {
  throw Error(ErrorKind::internal, "this build has no CUDA");
}

GpuTrainer::~GpuTrainer() = default;

void GpuTrainer::on_stream(const std::function<void()>& work) const {
  work();
}

at::Tensor GpuTrainer::train(const Plan& /*plan*/, const TrainOptions& /*options*/, double /*lr*/,
                             const LocalRule& /*rule*/, const Loss& /*loss*/,
                             const std::function<void()>& /*before_step*/) {
  return {};
}

void wait_for(at::Device /*device*/) {}

}  // namespace winnow

#endif
