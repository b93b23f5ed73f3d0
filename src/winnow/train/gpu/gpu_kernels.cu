#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "winnow/train/gpu/gpu_kernels.h"

namespace winnow::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kLossThreads = 512;
constexpr int kTilePad = 4;
constexpr int kTileValues = 5120;  // 512 channels of a 3x3 kernel, padded

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

// What one chunk's values have in common.
struct Rule {
  __device__ Rule(const UpdateJob& job, int step)
      : lr(job.knobs[0]), momentum(job.knobs[1]), decay(job.knobs[2]) {
    if (job.anchor != nullptr) {
      pull = job.pull[step];
      if (job.distance != nullptr) {
        const float distance = *job.distance;
        pull = distance > 0.0F ? pull / distance : 0.0F;
      }
    }
  }

  // The weight after the step; `velocity` is moved.
  __device__ float operator()(float weight, float gradient, float anchor, float drift,
                              float& velocity) const {
    gradient += decay * weight;
    gradient = pull != 0.0F ? gradient + pull * (weight - anchor) : gradient;
    gradient += drift;
    velocity = momentum * velocity + gradient;
    return weight - lr * velocity;
  }

  float lr;
  float momentum;
  float decay;
  float pull = 0.0F;
};

__device__ float gradient_at(const Piece& piece, int place) {
  return piece.low != 0
             ? __bfloat162float(static_cast<const __nv_bfloat16*>(piece.gradient)[place])
             : static_cast<const float*>(piece.gradient)[place];
}

__device__ void write_copy(const UpdateJob& job, std::int64_t place, float weight) {
  if (job.copy_low) {
    static_cast<__nv_bfloat16*>(job.copy)[place] = __float2bfloat16(weight);
  } else {
    static_cast<float*>(job.copy)[place] = weight;
  }
}

// One value by itself: its weight after the step.
__device__ float updated(const UpdateJob& job, const Rule& rule, std::int64_t place,
                         float gradient) {
  const float weight = job.weights[place];
  const float anchor = job.anchor != nullptr ? job.anchor[place] : weight;
  const float drift = job.drift != nullptr ? job.drift[place] : 0.0F;
  float velocity = job.velocity != nullptr ? job.velocity[place] : 0.0F;
  const float after = rule(weight, gradient, anchor, drift, velocity);
  if (job.velocity != nullptr) {
    job.velocity[place] = velocity;
  }
  job.weights[place] = after;
  return after;
}

__device__ bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

struct alignas(8) FourLow {
  __nv_bfloat16 value[4];
};

__device__ float4 four_gradients(const Piece& piece, int place) {
  if (piece.low == 0) {
    return *reinterpret_cast<const float4*>(static_cast<const float*>(piece.gradient) + place);
  }
  const FourLow low = *reinterpret_cast<const FourLow*>(
      static_cast<const __nv_bfloat16*>(piece.gradient) + place);
  return {__bfloat162float(low.value[0]), __bfloat162float(low.value[1]),
          __bfloat162float(low.value[2]), __bfloat162float(low.value[3])};
}

__device__ void write_four(const UpdateJob& job, std::int64_t place, const float4& weight) {
  if (job.copy_low) {
    const FourLow low{{__float2bfloat16(weight.x), __float2bfloat16(weight.y),
                       __float2bfloat16(weight.z), __float2bfloat16(weight.w)}};
    *reinterpret_cast<FourLow*>(static_cast<__nv_bfloat16*>(job.copy) + place) = low;
  } else {
    *reinterpret_cast<float4*>(static_cast<float*>(job.copy) + place) = weight;
  }
}

__device__ float4 four(const float* from, std::int64_t place) {
  return *reinterpret_cast<const float4*>(from + place);
}

// A chunk whose gradient and copy lie as its weights do, four values at a time where they can be.
// Copies start at multiples of 128 values, chunks at multiples of four.
__device__ void update_in_order(const UpdateJob& job, const Rule& rule, const Chunk& chunk,
                                const Piece& piece) {
  const std::int64_t first = piece.offset + chunk.start;
  const std::int64_t first_in_copy = piece.copy_offset + chunk.start;
  const bool wide = is_aligned(job.weights + first) && is_aligned(piece.gradient) &&
                    first_in_copy % 4 == 0 && chunk.start % 4 == 0;
  const int fours = wide ? chunk.size / 4 : 0;
  for (int i = static_cast<int>(threadIdx.x); i < fours; i += static_cast<int>(blockDim.x)) {
    const std::int64_t place = first + 4 * i;
    const float4 gradient = four_gradients(piece, chunk.start + 4 * i);
    float4 weight = four(job.weights, place);
    const float4 anchor = job.anchor != nullptr ? four(job.anchor, place) : weight;
    const float4 drift = job.drift != nullptr ? four(job.drift, place) : float4{};
    float4 velocity = job.velocity != nullptr ? four(job.velocity, place) : float4{};
    weight.x = rule(weight.x, gradient.x, anchor.x, drift.x, velocity.x);
    weight.y = rule(weight.y, gradient.y, anchor.y, drift.y, velocity.y);
    weight.z = rule(weight.z, gradient.z, anchor.z, drift.z, velocity.z);
    weight.w = rule(weight.w, gradient.w, anchor.w, drift.w, velocity.w);
    if (job.velocity != nullptr) {
      *reinterpret_cast<float4*>(job.velocity + place) = velocity;
    }
    *reinterpret_cast<float4*>(job.weights + place) = weight;
    write_four(job, first_in_copy + 4 * i, weight);
  }
  for (int i = 4 * fours + static_cast<int>(threadIdx.x); i < chunk.size;
       i += static_cast<int>(blockDim.x)) {
    write_copy(job, first_in_copy + i,
               updated(job, rule, first + i, gradient_at(piece, chunk.start + i)));
  }
}

// Whole outputs of a convolution in a block's own memory, in the order of the copy. Every line of
// `inner` values is four longer there, so that threads of a warp meet in few of its banks.
struct Tile {
  __device__ explicit Tile(const Piece& piece)
      : inner(piece.inner),
        area(piece.area),
        block(piece.inner * piece.area),
        per_inner(1.0F / static_cast<float>(piece.inner)),
        per_area(1.0F / static_cast<float>(piece.area)),
        per_block(1.0F / static_cast<float>(piece.inner * piece.area)) {}

  // For few thousand values: the half is far more than what rounding adds up to.
  static __device__ int divide(int value, float per) {
    return static_cast<int>((static_cast<float>(value) + 0.5F) * per);
  }
  // Of a value by its place in the copy's order.
  __device__ int by_copy(int place) const {
    const int line = divide(place, per_inner);
    return place + line * kTilePad;
  }
  // Of a value by its place in the weights' order.
  __device__ int by_weight(int place) const {
    const int out = divide(place, per_block);
    const int inside = place - out * block;
    const int from = divide(inside, per_area);
    const int pixel = inside - from * area;
    return (out * area + pixel) * (inner + kTilePad) + from;
  }

  int inner;
  int area;
  int block;
  float per_inner;
  float per_area;
  float per_block;
};

__device__ bool fits_tile(const Chunk& chunk, const Piece& piece) {
  const int block = piece.inner * piece.area;
  return chunk.start % block == 0 && chunk.size % block == 0 &&
         chunk.size / piece.inner * (piece.inner + kTilePad) <= kTileValues;
}

__device__ void copy_out(const UpdateJob& job, const Chunk& chunk, const Piece& piece,
                         const Tile& tile, const float* values) {
  const std::int64_t first = piece.copy_offset + chunk.start;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < chunk.size; i += static_cast<int>(blockDim.x)) {
    write_copy(job, first + i, values[tile.by_copy(i)]);
  }
}

// A chunk whose gradient and copy lie in another order: both are read and written as they lie.
__device__ void update_turned(const UpdateJob& job, const Rule& rule, const Chunk& chunk,
                              const Piece& piece, float* values) {
  const Tile tile(piece);
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < chunk.size; i += static_cast<int>(blockDim.x)) {
    values[tile.by_copy(i)] = gradient_at(piece, chunk.start + i);
  }
  __syncthreads();
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < chunk.size; i += static_cast<int>(blockDim.x)) {
    const int place = tile.by_weight(i);
    values[place] = updated(job, rule, piece.offset + chunk.start + i, values[place]);
  }
  __syncthreads();
  copy_out(job, chunk, piece, tile, values);
}

__global__ void refresh_kernel(UpdateJob job) {
  __shared__ float values[kTileValues];
  const Chunk chunk = job.chunks[blockIdx.x];
  const Piece piece = job.pieces[chunk.piece];
  const float* weights = job.weights + piece.offset + chunk.start;
  const bool turns = piece.copy_permuted != 0 && fits_tile(chunk, piece);
  const Tile tile(piece);
  for (int i = static_cast<int>(threadIdx.x); i < chunk.size; i += static_cast<int>(blockDim.x)) {
    if (turns) {
      values[tile.by_weight(i)] = weights[i];
      continue;
    }
    const int inside = chunk.start + i;
    write_copy(job,
               piece.copy_offset + (piece.copy_permuted != 0 ? permuted(piece, inside) : inside),
               weights[i]);
  }
  if (turns) {
    __syncthreads();
    copy_out(job, chunk, piece, tile, values);
  }
}

__global__ void update_kernel(UpdateJob job) {
  __shared__ float values[kTileValues];
  const int step = job.cursor->step + job.ahead;
  if (job.loss != nullptr && blockIdx.x == 0 && threadIdx.x == 0) {
    job.losses[step] = *job.loss;
  }
  const Chunk chunk = job.chunks[blockIdx.x];
  const Piece piece = job.pieces[chunk.piece];
  if (piece.gradient == nullptr) {
    return;
  }
  const Rule rule(job, step);
  if (piece.copy_permuted == 0 && piece.gradient_permuted == 0) {
    update_in_order(job, rule, chunk, piece);
    return;
  }
  if (piece.copy_permuted != 0 && piece.gradient_permuted != 0 && fits_tile(chunk, piece)) {
    update_turned(job, rule, chunk, piece, values);
    return;
  }
  for (int i = static_cast<int>(threadIdx.x); i < chunk.size; i += static_cast<int>(blockDim.x)) {
    const int inside = chunk.start + i;
    const int from = piece.gradient_permuted != 0 ? permuted(piece, inside) : inside;
    const int to = piece.copy_permuted != 0 ? permuted(piece, inside) : inside;
    write_copy(job, piece.copy_offset + to,
               updated(job, rule, piece.offset + inside, gradient_at(piece, from)));
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

std::int32_t chunk_of(const Piece& piece) {
  const std::int32_t block = piece.inner * piece.area;
  const std::int32_t padded = piece.area * (piece.inner + kTilePad);
  if (piece.copy_permuted == 0 || padded > kTileValues) {
    return kChunk;
  }
  return block * std::max(1, std::min(kChunk / block, kTileValues / padded));
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
