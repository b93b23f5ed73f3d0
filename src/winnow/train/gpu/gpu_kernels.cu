#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "winnow/train/gpu/gpu_kernels.h"

namespace winnow::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kLossThreads = 512;

__device__ float pixel(const BatchJob& job, std::int32_t entry, int view, int c, int y, int x) {
  if (job.jitter != nullptr) {
    const std::uint8_t* move =
        job.jitter + 3 * (static_cast<std::int64_t>(view) * job.view_stride + entry);
    y += move[0] - job.padding;
    x = (move[2] != 0 ? job.width - 1 - x : x) + move[1] - job.padding;
  }
  std::uint8_t level = 0;  // black outside, before normalisation
  if (y >= 0 && y < job.height && x >= 0 && x < job.width) {
    const std::int64_t plane = static_cast<std::int64_t>(job.index[entry]) * job.channels + c;
    level = job.images[(plane * job.height + y) * job.width + x];
  }
  return static_cast<float>(level) * job.scale[c] + job.shift[c];
}

template <typename T>
__global__ void make_batch_kernel(BatchJob job) {
  const int per_image = job.channels * job.height * job.width;
  const int place = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int first = job.cursor->entry + job.ahead * job.size;
  const int step = job.cursor->step + job.ahead;
  const float lambda = job.partner != nullptr ? job.lambda[step] : 1.0F;
  if (place < job.size) {
    job.labels[place] = job.label[first + place];
    if (job.partner != nullptr) {
      job.partner_labels[place] = job.label[first + job.partner[first + place]];
    }
  }
  if (place == 0 && job.partner != nullptr) {
    *job.lambda_now = lambda;
  }
  if (job.entries != nullptr && place < job.size) {
    job.entries[place] = first + place;
    *job.step = step;
  }
  if (place >= job.views * job.size * per_image) {
    return;
  }
  const int view = place / per_image / job.size;
  const int sample = place / per_image % job.size;
  const int inside = place % per_image;
  const int area = job.height * job.width;
  const int c = job.channels_last ? inside % job.channels : inside / area;
  const int pixel_place = job.channels_last ? inside / job.channels : inside % area;
  const int y = pixel_place / job.width;
  const int x = pixel_place % job.width;
  float value = pixel(job, first + sample, view, c, y, x);
  if (job.partner != nullptr) {
    const float other = pixel(job, first + job.partner[first + sample], view, c, y, x);
    value = lambda * value + (1.0F - lambda) * other;
  }
  static_cast<T*>(job.out)[place] = static_cast<T>(value);
}

// The place of a value in a tensor that lies as [out, area, inner].
__device__ int permuted(const Piece& piece, int inside) {
  const int block = piece.inner * piece.area;
  const int rest = inside % block;
  return inside - rest + rest % piece.area * piece.inner + rest / piece.area;
}

__device__ void write_copy(const UpdateJob& job, const Piece& piece, int inside, float weight) {
  const std::int64_t place =
      piece.copy_offset + (piece.copy_permuted != 0 ? permuted(piece, inside) : inside);
  if (job.copy_low) {
    static_cast<__nv_bfloat16*>(job.copy)[place] = __float2bfloat16(weight);
  } else {
    static_cast<float*>(job.copy)[place] = weight;
  }
}

__global__ void refresh_kernel(UpdateJob job) {
  const Chunk chunk = job.chunks[blockIdx.x];
  const Piece piece = job.pieces[chunk.piece];
  for (int i = static_cast<int>(threadIdx.x); i < chunk.size; i += static_cast<int>(blockDim.x)) {
    write_copy(job, piece, chunk.start + i, job.weights[piece.offset + chunk.start + i]);
  }
}

__global__ void update_kernel(UpdateJob job) {
  const int step = job.cursor->step + job.ahead;
  if (job.loss != nullptr && blockIdx.x == 0 && threadIdx.x == 0) {
    job.losses[step] = *job.loss;
  }
  const Chunk chunk = job.chunks[blockIdx.x];
  const Piece piece = job.pieces[chunk.piece];
  if (piece.gradient == nullptr) {
    return;
  }
  const float lr = job.knobs[0];
  const float momentum = job.knobs[1];
  const float decay = job.knobs[2];
  float pull = 0.0F;
  if (job.anchor != nullptr) {
    pull = job.pull[step];
    if (job.distance != nullptr) {
      const float distance = *job.distance;
      pull = distance > 0.0F ? pull / distance : 0.0F;
    }
  }
  for (int i = static_cast<int>(threadIdx.x); i < chunk.size; i += static_cast<int>(blockDim.x)) {
    const int inside = chunk.start + i;
    const std::int64_t place = piece.offset + inside;
    const int from = piece.gradient_permuted != 0 ? permuted(piece, inside) : inside;
    float gradient = piece.low != 0
                         ? __bfloat162float(static_cast<const __nv_bfloat16*>(piece.gradient)[from])
                         : static_cast<const float*>(piece.gradient)[from];
    float weight = job.weights[place];
    gradient += decay * weight;
    if (job.anchor != nullptr) {
      gradient += pull * (weight - job.anchor[place]);
    }
    if (job.drift != nullptr) {
      gradient += job.drift[place];
    }
    const float velocity = momentum * job.velocity[place] + gradient;
    job.velocity[place] = velocity;
    weight -= lr * velocity;
    job.weights[place] = weight;
    write_copy(job, piece, inside, weight);
  }
}

__device__ float warp_max(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, distance));
  }
  return value;
}

__device__ float warp_sum(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, distance);
  }
  return value;
}

// One block; each warp takes rows in turn (spec: label-noise C.2).
__global__ void cross_entropy_kernel(LossJob job) {
  __shared__ float sums[kLossThreads / kWarp];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const float sharpness = 1.0F / job.temperature;
  const float even = job.smoothing / static_cast<float>(job.classes);
  const float mean = 1.0F / static_cast<float>(job.rows);
  float sum_of_losses = 0.0F;
  for (int row = warp; row < job.rows; row += kLossThreads / kWarp) {
    const float* logits = job.logits + static_cast<std::int64_t>(row) * job.classes;
    float* gradient = job.gradient + static_cast<std::int64_t>(row) * job.classes;
    const int label = static_cast<int>(job.labels[row]);
    float largest = -INFINITY;
    for (int c = lane; c < job.classes; c += kWarp) {
      largest = fmaxf(largest, logits[c] * sharpness);
    }
    largest = warp_max(largest);
    float exponentials = 0.0F;
    float all = 0.0F;  // of the scaled logits below the largest
    for (int c = lane; c < job.classes; c += kWarp) {
      const float below = logits[c] * sharpness - largest;
      exponentials += expf(below);
      all += below;
    }
    exponentials = warp_sum(exponentials);
    all = warp_sum(all);
    const float normaliser = logf(exponentials);
    for (int c = lane; c < job.classes; c += kWarp) {
      const float probability = expf(logits[c] * sharpness - largest - normaliser);
      const float target = (c == label ? 1.0F - job.smoothing : 0.0F) + even;
      gradient[c] = (probability - target) * sharpness * mean;
    }
    const float of_label = logits[label] * sharpness - largest - normaliser;
    const float of_all = all - static_cast<float>(job.classes) * normaliser;
    sum_of_losses -= (1.0F - job.smoothing) * of_label + even * of_all;
  }
  if (lane == 0) {
    sums[warp] = sum_of_losses;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.0F;
    for (const float sum : sums) {
      total += sum;
    }
    *job.loss = total * mean;
  }
}

__global__ void advance_kernel(Cursor* cursor, int steps, int entries) {
  cursor->entry += entries;
  cursor->step += steps;
}

}  // namespace

void make_batch(const BatchJob& job, StreamHandle stream) {
  const int values = job.views * job.size * job.channels * job.height * job.width;
  const int blocks = (values + kThreads - 1) / kThreads;
  auto* const on = static_cast<cudaStream_t>(stream);
  if (job.low) {
    make_batch_kernel<__nv_bfloat16><<<blocks, kThreads, 0, on>>>(job);
  } else {
    make_batch_kernel<float><<<blocks, kThreads, 0, on>>>(job);
  }
}

void update(const UpdateJob& job, StreamHandle stream) {
  update_kernel<<<job.chunk_count, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(job);
}

void refresh(const UpdateJob& job, StreamHandle stream) {
  refresh_kernel<<<job.chunk_count, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(job);
}

void cross_entropy(const LossJob& job, StreamHandle stream) {
  cross_entropy_kernel<<<1, kLossThreads, 0, static_cast<cudaStream_t>(stream)>>>(job);
}

void advance(Cursor* cursor, std::int32_t steps, std::int32_t entries, StreamHandle stream) {
  advance_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(cursor, steps, entries);
}

}  // namespace winnow::gpu
