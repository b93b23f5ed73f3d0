#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "winnow/model/gpu/norm_kernels.h"

namespace winnow::gpu {
namespace {

namespace cg = cooperative_groups;

// A block of threads looks after `kColumns` neighbouring channels, and a slice of the pixels: each
// thread loads 16 bytes at a time, two threads the 32 bytes that memory hands out at least.
constexpr int kWarp = 32;
constexpr int kPairs = 2;
constexpr int kMostThreads = 512;
constexpr int kFewThreads = 256;
constexpr int kMostWarps = kMostThreads / kWarp;
constexpr int kMostSlices = 8;          // blocks of a cluster
constexpr int kSlicePixels = 640;       // a slice of a cluster has more only where there are 8
constexpr int kOneKernelPixels = 65536;  // from here on two kernels, with more blocks, are faster
constexpr int kPartPixels = 2048;       // of a slice where there are two kernels
constexpr int kMostParts = 128;
constexpr int kHopper = 90;
constexpr std::uint32_t kNoPixel = 15;  // of a window

template <typename T>
constexpr int kVector = 16 / static_cast<int>(sizeof(T));
template <typename T>
constexpr int kColumns = kPairs * kVector<T>;

template <typename T>
struct alignas(16) Pack {
  T value[kVector<T>];
};

__device__ float wide(float value) {
  return value;
}
__device__ float wide(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
template <typename T>
__device__ T narrow(float value);
template <>
__device__ float narrow<float>(float value) {
  return value;
}
template <>
__device__ __nv_bfloat16 narrow<__nv_bfloat16>(float value) {
  return __float2bfloat16(value);
}

template <typename T>
__device__ Pack<T> load(const void* from, std::int64_t place) {
  return *reinterpret_cast<const Pack<T>*>(static_cast<const T*>(from) + place);
}
template <typename T>
__device__ void store(void* to, std::int64_t place, const Pack<T>& pack) {
  *reinterpret_cast<Pack<T>*>(static_cast<T*>(to) + place) = pack;
}

// Division of values below 2^31 by a number that only the host knows, as a product.
struct Divisor {
  std::uint32_t by = 1;
  std::uint32_t factor = 0;
  int shift = 0;

  Divisor() = default;
  explicit Divisor(int number) : by(static_cast<std::uint32_t>(number)) {
    int power = 31;
    while ((std::uint64_t{1} << (power - 31)) < by) {
      ++power;
    }
    factor = by == 1 ? 0 : static_cast<std::uint32_t>(((std::uint64_t{1} << power) + by - 1) / by);
    shift = by == 1 ? 0 : power - 32;
  }
  __device__ int operator()(int value) const {
    return by == 1 ? value
                   : static_cast<int>(__umulhi(static_cast<std::uint32_t>(value), factor) >> shift);
  }
};

// What a slice of the pixels is made of: pixels, or with a pool lines of windows. Such a line is two
// rows of pixels, the last one of an image with an odd height a single row; lines follow each other
// in memory, so the pixels of a slice do, too.
struct Slices {
  NormShape shape;
  int count = 1;
  Divisor lines_of_image;
  Divisor windows_of_line;

  __host__ __device__ int units() const {
    return shape.pool ? shape.images * static_cast<int>(lines_of_image.by)
                      : shape.images * shape.height * shape.width;
  }
  __device__ int first_unit(int slice) const {
    return static_cast<int>(static_cast<std::int64_t>(units()) * slice / count);
  }
  __device__ int first_pixel_of(int unit) const {
    if (!shape.pool) {
      return unit;
    }
    const int image = lines_of_image(unit);
    const int line = unit - image * static_cast<int>(lines_of_image.by);
    return (image * shape.height + 2 * line) * shape.width;
  }
};

// The threads of a block: which pixels and which channels of the block are a thread's own.
template <typename T>
struct Place {
  __device__ explicit Place(int channels, int column_block)
      : pair(static_cast<int>(threadIdx.x) % kPairs),
        row(static_cast<int>(threadIdx.x) / kPairs),
        rows(static_cast<int>(blockDim.x) / kPairs),
        first_channel(column_block * kColumns<T>),
        channel(first_channel + pair * kVector<T>),
        inside(channel < channels) {}

  int pair;
  int row;
  int rows;
  int first_channel;  // of the block
  int channel;        // of the thread
  bool inside;        // the last block may have half as many channels
};

// Sums over all threads of a block with the same channels, in a fixed order: totals[0, kColumns)
// are complete for all threads on return.
template <typename T>
__device__ void sum_over_block(const float (&own)[kVector<T>], const Place<T>& place,
                               float (&parts)[kMostWarps][16], float (&totals)[16]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  __syncthreads();  // `parts` and `totals` may still be read
#pragma unroll
  for (int k = 0; k < kVector<T>; ++k) {
    float value = own[k];
#pragma unroll
    for (int distance = kWarp / 2; distance >= kPairs; distance /= 2) {
      value += __shfl_xor_sync(0xffffffffU, value, distance);
    }
    if (lane < kPairs) {
      parts[warp][place.pair * kVector<T> + k] = value;
    }
  }
  __syncthreads();
  if (threadIdx.x < kColumns<T>) {
    float total = 0.0F;
    for (int other = 0; other < static_cast<int>(blockDim.x) / kWarp; ++other) {
      total += parts[other][threadIdx.x];
    }
    totals[threadIdx.x] = total;
  }
  __syncthreads();
}

// Sums of two kinds for each channel of a block, and the pixels they are over.
struct Sums {
  float first[16];
  float second[16];
  int pixels;
};

struct Scratch {
  float parts[kMostWarps][16];
  float totals[16];
  Sums sums;
};

// Mean and sum of squares around it, of a slice.
template <typename T>
__device__ void moments_of_slice(const NormJob& job, const Place<T>& place, int from, int to,
                                 Scratch& scratch) {
  const int channels = job.shape.channels;
  const float count = static_cast<float>(to - from);
  float own[kVector<T>] = {};
  float pivot[kVector<T>] = {};  // so that values far from zero add up to little
  if (place.inside && from < to) {
    const Pack<T> first = load<T>(job.x, from * channels + place.channel);
#pragma unroll
    for (int k = 0; k < kVector<T>; ++k) {
      pivot[k] = wide(first.value[k]);
    }
#pragma unroll 4
    for (int pixel = from + place.row; pixel < to; pixel += place.rows) {
      const Pack<T> x = load<T>(job.x, pixel * channels + place.channel);
#pragma unroll
      for (int k = 0; k < kVector<T>; ++k) {
        own[k] += wide(x.value[k]) - pivot[k];
      }
    }
  }
  sum_over_block<T>(own, place, scratch.parts, scratch.totals);
  float mean[kVector<T>];
#pragma unroll
  for (int k = 0; k < kVector<T>; ++k) {
    mean[k] = pivot[k] + scratch.totals[place.pair * kVector<T> + k] / count;
    own[k] = 0.0F;
    if (place.row == 0) {
      scratch.sums.first[place.pair * kVector<T> + k] = mean[k];
    }
  }
  if (place.inside) {
#pragma unroll 4
    for (int pixel = from + place.row; pixel < to; pixel += place.rows) {
      const Pack<T> x =
          load<T>(job.x, pixel * channels + place.channel);
#pragma unroll
      for (int k = 0; k < kVector<T>; ++k) {
        const float away = wide(x.value[k]) - mean[k];
        own[k] = fmaf(away, away, own[k]);
      }
    }
  }
  sum_over_block<T>(own, place, scratch.parts, scratch.totals);
  if (threadIdx.x < kColumns<T>) {
    scratch.sums.second[threadIdx.x] = scratch.totals[threadIdx.x];
  }
  if (threadIdx.x == 0) {
    scratch.sums.pixels = to - from;
  }
}

// Mean and squares of slices so far, one slice after the other.
struct Moments {
  float mean = 0.0F;
  float squares = 0.0F;
  float pixels = 0.0F;

  __device__ void add(float other_mean, float other_squares, int other_pixels) {
    if (other_pixels == 0) {
      return;
    }
    const auto more = static_cast<float>(other_pixels);
    const float all = pixels + more;
    const float apart = other_mean - mean;
    mean += apart * (more / all);
    squares += other_squares + apart * apart * (pixels * more / all);
    pixels = all;
  }
};

// What the normalisation of the block's channels multiplies and adds.
struct Affine {
  float mean[16];
  float scale[16];
  float bias[16];
};

// One thread per channel: writes down the statistics (only the first slice's block) and what
// follows from them.
template <typename T>
__device__ void settle(const NormJob& job, int channel, int column, const Moments& moments,
                       bool writes, Affine& affine) {
  const float variance = moments.squares / moments.pixels;
  const float rstd = 1.0F / sqrtf(variance + job.eps);
  const float shift =
      job.shift != nullptr ? wide(static_cast<const T*>(job.shift)[channel]) : 0.0F;
  affine.mean[column] = moments.mean;
  affine.scale[column] = job.weight[channel] * rstd;
  affine.bias[column] = job.bias[channel] + (shift - shift);  // a shift that is no number shows
  if (!writes) {
    return;
  }
  job.statistics[channel] = moments.mean;
  job.statistics[job.shape.channels + channel] = rstd;
  if (job.running_mean != nullptr) {
    const float unbiased = moments.squares / (moments.pixels - 1.0F);
    const float keep = 1.0F - job.momentum;
    job.running_mean[channel] =
        keep * job.running_mean[channel] + job.momentum * (moments.mean + shift);
    job.running_var[channel] = keep * job.running_var[channel] + job.momentum * unbiased;
  }
}

// A thread's share of it.
template <typename T>
struct OwnAffine {
  __device__ OwnAffine(const Affine& affine, const Place<T>& place) {
#pragma unroll
    for (int k = 0; k < kVector<T>; ++k) {
      mean[k] = affine.mean[place.pair * kVector<T> + k];
      scale[k] = affine.scale[place.pair * kVector<T> + k];
      bias[k] = affine.bias[place.pair * kVector<T> + k];
    }
  }
  // Forward and backward must find the same, so that they agree which value is the largest.
  __device__ float operator()(float x, int k) const { return fmaf(x - mean[k], scale[k], bias[k]); }

  float mean[kVector<T>];
  float scale[kVector<T>];
  float bias[kVector<T>];
};

// Not fmaxf(), which hides what is no number.
__device__ float relu_of(float value) {
  return value <= 0.0F ? 0.0F : value;
}

// The pixels of a window and where its result lies; a window at an odd edge has fewer and none.
struct Window {
  int first;  // pixel
  bool right;
  bool below;
  int out;

  // The window of that number among those of the slice that starts with line `begin`.
  __device__ Window(const Slices& slices, int begin, int number) {
    const NormShape& shape = slices.shape;
    const int lines_before = slices.windows_of_line(number);
    const int x = number - lines_before * static_cast<int>(slices.windows_of_line.by);
    const int line = begin + lines_before;
    const int image = slices.lines_of_image(line);
    const int y = line - image * static_cast<int>(slices.lines_of_image.by);
    first = (image * shape.height + 2 * y) * shape.width + 2 * x;
    right = 2 * x + 1 < shape.width;
    below = 2 * y + 1 < shape.height;
    out = (image * (shape.height / 2) + y) * (shape.width / 2) + x;
  }
  __device__ bool whole() const { return right && below; }
  __device__ bool has(int i) const { return (i % 2 == 0 || right) && (i < 2 || below); }
  __device__ int pixel(int i, int width) const { return first + i % 2 + (i < 2 ? 0 : width); }
};

template <typename T, bool kPool>
__device__ void apply_to_slice(const NormJob& job, const Slices& slices, const Place<T>& place,
                               int slice, const Affine& affine) {
  if (!place.inside) {
    return;
  }
  const int channels = job.shape.channels;
  const OwnAffine<T> normal(affine, place);
  const int begin = slices.first_unit(slice);
  const int end = slices.first_unit(slice + 1);
  if constexpr (kPool) {
    const int across = static_cast<int>(slices.windows_of_line.by);
    const int windows = (end - begin) * across;
    for (int number = place.row; number < windows; number += place.rows) {
      const Window window(slices, begin, number);
      if (!window.whole()) {
        continue;
      }
      Pack<T> x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[i] = load<T>(job.x, window.pixel(i, job.shape.width) * channels + place.channel);
      }
      Pack<T> y;
#pragma unroll
      for (int k = 0; k < kVector<T>; ++k) {
        float best = normal(wide(x[0].value[k]), k);
#pragma unroll
        for (int i = 1; i < 4; ++i) {
          const float value = normal(wide(x[i].value[k]), k);
          best = value > best || isnan(value) ? value : best;
        }
        y.value[k] = narrow<T>(job.shape.relu ? relu_of(best) : best);
      }
      store<T>(job.y, window.out * channels + place.channel, y);
    }
  } else {
#pragma unroll 4
    for (int pixel = begin + place.row; pixel < end; pixel += place.rows) {
      const int at = pixel * channels + place.channel;
      const Pack<T> x = load<T>(job.x, at);
      Pack<T> y;
      float value[kVector<T>];
#pragma unroll
      for (int k = 0; k < kVector<T>; ++k) {
        value[k] = normal(wide(x.value[k]), k);
      }
      if (job.residual != nullptr) {
        const Pack<T> residual = load<T>(job.residual, at);
#pragma unroll
        for (int k = 0; k < kVector<T>; ++k) {
          value[k] += wide(residual.value[k]);
        }
      }
#pragma unroll
      for (int k = 0; k < kVector<T>; ++k) {
        y.value[k] = narrow<T>(job.shape.relu ? relu_of(value[k]) : value[k]);
      }
      store<T>(job.y, at, y);
    }
  }
}

// The blocks of a cluster share out the pixels of the same channels and read each other's sums.
template <typename T, bool kPool>
__global__ void __launch_bounds__(kMostThreads) forward_kernel(NormJob job, Slices slices) {
#if __CUDA_ARCH__ >= 900
  __shared__ Scratch scratch;
  __shared__ Affine affine;
  const cg::cluster_group cluster = cg::this_cluster();
  const int slice = static_cast<int>(blockIdx.x) % slices.count;
  const Place<T> place(job.shape.channels, static_cast<int>(blockIdx.x) / slices.count);
  moments_of_slice<T>(job, place, slices.first_pixel_of(slices.first_unit(slice)),
                      slices.first_pixel_of(slices.first_unit(slice + 1)), scratch);
  cluster.sync();
  const int column = static_cast<int>(threadIdx.x);
  if (column < kColumns<T> && place.first_channel + column < job.shape.channels) {
    Moments moments;
    for (int other = 0; other < slices.count; ++other) {
      const Sums* sums = cluster.map_shared_rank(&scratch.sums, other);
      moments.add(sums->first[column], sums->second[column], sums->pixels);
    }
    settle<T>(job, place.first_channel + column, column, moments, slice == 0, affine);
  }
  cluster.sync();  // also: nobody leaves while its sums are read
  apply_to_slice<T, kPool>(job, slices, place, slice, affine);
#endif
}

// Where there are too many pixels for a cluster: sums of each slice into memory, then the rest.
template <typename T>
__global__ void __launch_bounds__(kMostThreads) moments_kernel(NormJob job, Slices slices) {
  __shared__ Scratch scratch;
  const int slice = static_cast<int>(blockIdx.x) % slices.count;
  const Place<T> place(job.shape.channels, static_cast<int>(blockIdx.x) / slices.count);
  moments_of_slice<T>(job, place, slices.first_pixel_of(slices.first_unit(slice)),
                      slices.first_pixel_of(slices.first_unit(slice + 1)), scratch);
  __syncthreads();
  const int channel = place.first_channel + static_cast<int>(threadIdx.x);
  if (threadIdx.x < kColumns<T> && channel < job.shape.channels) {
    float* sums = job.scratch + 2 * (static_cast<std::int64_t>(slice) * job.shape.channels + channel);
    sums[0] = scratch.sums.first[threadIdx.x];
    sums[1] = scratch.sums.second[threadIdx.x];
  }
}

template <typename T, bool kPool>
__global__ void __launch_bounds__(kMostThreads) apply_kernel(NormJob job, Slices slices) {
  __shared__ Affine affine;
  const int slice = static_cast<int>(blockIdx.x) % slices.count;
  const Place<T> place(job.shape.channels, static_cast<int>(blockIdx.x) / slices.count);
  const int column = static_cast<int>(threadIdx.x);
  const int channel = place.first_channel + column;
  if (column < kColumns<T> && channel < job.shape.channels) {
    Moments moments;
    for (int other = 0; other < slices.count; ++other) {
      const float* sums =
          job.scratch + 2 * (static_cast<std::int64_t>(other) * job.shape.channels + channel);
      moments.add(sums[0], sums[1],
                  slices.first_pixel_of(slices.first_unit(other + 1)) -
                      slices.first_pixel_of(slices.first_unit(other)));
    }
    settle<T>(job, channel, column, moments, slice == 0, affine);
  }
  __syncthreads();
  apply_to_slice<T, kPool>(job, slices, place, slice, affine);
}

// What the backward pass knows of a thread's channels.
template <typename T>
struct Known {
  __device__ Known(const NormGradientJob& job, const Place<T>& place) {
#pragma unroll
    for (int k = 0; k < kVector<T>; ++k) {
      const int channel = place.inside ? place.channel + k : 0;
      mean[k] = job.statistics[channel];
      rstd[k] = job.statistics[job.shape.channels + channel];
      scale[k] = job.weight[channel] * rstd[k];
      bias[k] = job.bias[channel];
    }
  }
  __device__ float normal(float x, int k) const { return fmaf(x - mean[k], scale[k], bias[k]); }
  __device__ float standard(float x, int k) const { return (x - mean[k]) * rstd[k]; }

  float mean[kVector<T>];
  float rstd[kVector<T>];
  float scale[kVector<T>];
  float bias[kVector<T>];
};

// Calls visit(place in memory, x, gradient behind the normalisation) for each of the thread's
// pixels of a slice, 16 bytes at a time.
template <typename T, bool kPool, typename Visit>
__device__ void each_gradient(const NormGradientJob& job, const Slices& slices,
                              const Place<T>& place, int slice, const Known<T>& known,
                              const Visit& visit) {
  const int channels = job.shape.channels;
  const int begin = slices.first_unit(slice);
  const int end = slices.first_unit(slice + 1);
  if constexpr (kPool) {
    const int across = static_cast<int>(slices.windows_of_line.by);
    const int windows = (end - begin) * across;
    for (int number = place.row; number < windows; number += place.rows) {
      const Window window(slices, begin, number);
      Pack<T> x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (window.has(i)) {
          x[i] = load<T>(job.x, window.pixel(i, job.shape.width) * channels + place.channel);
        }
      }
      // Which pixel gets the gradient of a channel, four bits each.
      std::uint32_t chosen = 0;
      Pack<T> upstream{};
      if (window.whole()) {
        upstream = load<T>(job.upstream, window.out * channels + place.channel);
#pragma unroll
        for (int k = 0; k < kVector<T>; ++k) {
          float best = known.normal(wide(x[0].value[k]), k);
          std::uint32_t which = 0;
#pragma unroll
          for (int i = 1; i < 4; ++i) {
            const float value = known.normal(wide(x[i].value[k]), k);
            if (value > best || isnan(value)) {
              best = value;
              which = i;
            }
          }
          chosen |= (job.shape.relu && best <= 0.0F ? kNoPixel : which) << (4 * k);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (window.has(i)) {
          float gradient[kVector<T>];
#pragma unroll
          for (int k = 0; k < kVector<T>; ++k) {
            gradient[k] = (chosen >> (4 * k)) % 16 == i ? wide(upstream.value[k]) : 0.0F;
          }
          visit(window.pixel(i, job.shape.width) * channels + place.channel, x[i], gradient);
        }
      }
    }
  } else {
#pragma unroll 2
    for (int pixel = begin + place.row; pixel < end; pixel += place.rows) {
      const int at = pixel * channels + place.channel;
      const Pack<T> x = load<T>(job.x, at);
      const Pack<T> upstream = load<T>(job.upstream, at);
      float gradient[kVector<T>];
      if (!job.shape.relu) {
#pragma unroll
        for (int k = 0; k < kVector<T>; ++k) {
          gradient[k] = wide(upstream.value[k]);
        }
      } else if (job.y != nullptr) {
        const Pack<T> y = load<T>(job.y, at);
#pragma unroll
        for (int k = 0; k < kVector<T>; ++k) {
          gradient[k] = wide(y.value[k]) <= 0.0F ? 0.0F : wide(upstream.value[k]);
        }
      } else {
#pragma unroll
        for (int k = 0; k < kVector<T>; ++k) {
          gradient[k] =
              known.normal(wide(x.value[k]), k) <= 0.0F ? 0.0F : wide(upstream.value[k]);
        }
      }
      visit(at, x, gradient);
    }
  }
}

// Sums of the gradient and of the gradient times the standardised values, of a slice.
template <typename T, bool kPool>
__device__ void gradient_sums(const NormGradientJob& job, const Slices& slices,
                              const Place<T>& place, int slice, const Known<T>& known,
                              Scratch& scratch) {
  float plain[kVector<T>] = {};
  float weighted[kVector<T>] = {};
  if (place.inside) {
    each_gradient<T, kPool>(job, slices, place, slice, known,
                            [&](int, const Pack<T>& x,
                                const float(&gradient)[kVector<T>]) {
#pragma unroll
                              for (int k = 0; k < kVector<T>; ++k) {
                                plain[k] += gradient[k];
                                weighted[k] = fmaf(gradient[k], known.standard(wide(x.value[k]), k),
                                                   weighted[k]);
                              }
                            });
  }
  sum_over_block<T>(plain, place, scratch.parts, scratch.totals);
  if (threadIdx.x < kColumns<T>) {
    scratch.sums.first[threadIdx.x] = scratch.totals[threadIdx.x];
  }
  sum_over_block<T>(weighted, place, scratch.parts, scratch.totals);
  if (threadIdx.x < kColumns<T>) {
    scratch.sums.second[threadIdx.x] = scratch.totals[threadIdx.x];
  }
}

// The gradients of the parameters of one channel; only the first slice's block writes them down.
template <typename T>
__device__ void settle_gradient(const NormGradientJob& job, int channel, float plain,
                                float weighted) {
  job.of_bias[channel] = plain;
  job.of_weight[channel] = weighted;
  if (job.of_shift != nullptr) {
    static_cast<T*>(job.of_shift)[channel] = narrow<T>(0.0F);
  }
}

template <typename T, bool kPool>
__device__ void write_gradients(const NormGradientJob& job, const Slices& slices,
                                const Place<T>& place, int slice, const Known<T>& known,
                                const Sums& means) {
  if (!place.inside) {
    return;
  }
  float plain[kVector<T>];
  float weighted[kVector<T>];
#pragma unroll
  for (int k = 0; k < kVector<T>; ++k) {
    plain[k] = means.first[place.pair * kVector<T> + k];
    weighted[k] = means.second[place.pair * kVector<T> + k];
  }
  each_gradient<T, kPool>(
      job, slices, place, slice, known,
      [&](int at, const Pack<T>& x, const float(&gradient)[kVector<T>]) {
        Pack<T> of_x;
#pragma unroll
        for (int k = 0; k < kVector<T>; ++k) {
          const float standard = known.standard(wide(x.value[k]), k);
          of_x.value[k] =
              narrow<T>(known.scale[k] * (gradient[k] - plain[k] - standard * weighted[k]));
        }
        store<T>(job.of_x, at, of_x);
        if (job.of_residual != nullptr) {
          Pack<T> of_residual;
#pragma unroll
          for (int k = 0; k < kVector<T>; ++k) {
            of_residual.value[k] = narrow<T>(gradient[k]);
          }
          store<T>(job.of_residual, at, of_residual);
        }
      });
}

template <typename T, bool kPool>
__global__ void __launch_bounds__(kMostThreads)
    backward_kernel(NormGradientJob job, Slices slices) {
#if __CUDA_ARCH__ >= 900
  __shared__ Scratch scratch;
  __shared__ Sums means;
  const cg::cluster_group cluster = cg::this_cluster();
  const int slice = static_cast<int>(blockIdx.x) % slices.count;
  const Place<T> place(job.shape.channels, static_cast<int>(blockIdx.x) / slices.count);
  const Known<T> known(job, place);
  gradient_sums<T, kPool>(job, slices, place, slice, known, scratch);
  cluster.sync();
  const int column = static_cast<int>(threadIdx.x);
  if (column < kColumns<T> && place.first_channel + column < job.shape.channels) {
    float plain = 0.0F;
    float weighted = 0.0F;
    for (int other = 0; other < slices.count; ++other) {
      const Sums* sums = cluster.map_shared_rank(&scratch.sums, other);
      plain += sums->first[column];
      weighted += sums->second[column];
    }
    const auto pixels =
        static_cast<float>(job.shape.images * job.shape.height * job.shape.width);
    means.first[column] = plain / pixels;
    means.second[column] = weighted / pixels;
    if (slice == 0) {
      settle_gradient<T>(job, place.first_channel + column, plain, weighted);
    }
  }
  cluster.sync();  // also: nobody leaves while its sums are read
  write_gradients<T, kPool>(job, slices, place, slice, known, means);
#endif
}

template <typename T, bool kPool>
__global__ void __launch_bounds__(kMostThreads)
    gradient_sums_kernel(NormGradientJob job, Slices slices) {
  __shared__ Scratch scratch;
  const int slice = static_cast<int>(blockIdx.x) % slices.count;
  const Place<T> place(job.shape.channels, static_cast<int>(blockIdx.x) / slices.count);
  const Known<T> known(job, place);
  gradient_sums<T, kPool>(job, slices, place, slice, known, scratch);
  const int channel = place.first_channel + static_cast<int>(threadIdx.x);
  if (threadIdx.x < kColumns<T> && channel < job.shape.channels) {
    float* sums = job.scratch + 2 * (static_cast<std::int64_t>(slice) * job.shape.channels + channel);
    sums[0] = scratch.sums.first[threadIdx.x];
    sums[1] = scratch.sums.second[threadIdx.x];
  }
}

template <typename T, bool kPool>
__global__ void __launch_bounds__(kMostThreads)
    write_gradients_kernel(NormGradientJob job, Slices slices) {
  __shared__ Sums means;
  const int slice = static_cast<int>(blockIdx.x) % slices.count;
  const Place<T> place(job.shape.channels, static_cast<int>(blockIdx.x) / slices.count);
  const Known<T> known(job, place);
  const int column = static_cast<int>(threadIdx.x);
  const int channel = place.first_channel + column;
  if (column < kColumns<T> && channel < job.shape.channels) {
    float plain = 0.0F;
    float weighted = 0.0F;
    for (int other = 0; other < slices.count; ++other) {
      const float* sums =
          job.scratch + 2 * (static_cast<std::int64_t>(other) * job.shape.channels + channel);
      plain += sums[0];
      weighted += sums[1];
    }
    const auto pixels =
        static_cast<float>(job.shape.images * job.shape.height * job.shape.width);
    means.first[column] = plain / pixels;
    means.second[column] = weighted / pixels;
    if (slice == 0) {
      settle_gradient<T>(job, channel, plain, weighted);
    }
  }
  __syncthreads();
  write_gradients<T, kPool>(job, slices, place, slice, known, means);
}

int pixels_of(const NormShape& shape) {
  return shape.images * shape.height * shape.width;
}

// Whether this device and this build know clusters of blocks.
bool has_clusters() {
  static const bool known = [] {
    int device = 0;
    int major = 0;
    cudaFuncAttributes attributes{};
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           10 * major >= kHopper &&
           cudaFuncGetAttributes(&attributes,
                                 reinterpret_cast<const void*>(forward_kernel<float, false>)) ==
               cudaSuccess &&
           attributes.ptxVersion >= kHopper;
  }();
  return known;
}

bool in_one_kernel(const NormShape& shape) {
  return !shape.split && pixels_of(shape) <= kOneKernelPixels && has_clusters();
}

int slices_of(const NormShape& shape) {
  const int pixels = pixels_of(shape);
  int slices = 1;
  if (in_one_kernel(shape)) {
    while (slices < kMostSlices && pixels / slices > kSlicePixels) {
      slices *= 2;
    }
    return slices;
  }
  return std::clamp(pixels / kPartPixels, 1, kMostParts);
}

struct Launch {
  Slices slices;
  int blocks = 0;
  int threads = 0;
};

template <typename T>
Launch launch_of(const NormShape& shape) {
  Launch launch;
  launch.slices.shape = shape;
  launch.slices.count = slices_of(shape);
  launch.slices.lines_of_image = Divisor((shape.height + 1) / 2);
  launch.slices.windows_of_line = Divisor((shape.width + 1) / 2);
  launch.blocks = launch.slices.count * ((shape.channels + kColumns<T> - 1) / kColumns<T>);
  launch.threads =
      pixels_of(shape) / launch.slices.count > kMostThreads / kPairs ? kMostThreads : kFewThreads;
  return launch;
}

template <typename Job>
void start(void (*kernel)(Job, Slices), const Launch& launch, const Job& job, bool cluster,
           StreamHandle stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(launch.blocks));
  config.blockDim = dim3(static_cast<unsigned>(launch.threads));
  config.stream = static_cast<cudaStream_t>(stream);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(launch.slices.count);
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = cluster ? 1 : 0;
  // An error is found by whoever asks for the last one.
  static_cast<void>(cudaLaunchKernelEx(&config, kernel, job, launch.slices));
}

template <typename T, bool kPool>
void run_forward(const NormJob& job, StreamHandle stream) {
  const Launch launch = launch_of<T>(job.shape);
  if (in_one_kernel(job.shape)) {
    start(forward_kernel<T, kPool>, launch, job, true, stream);
    return;
  }
  start(moments_kernel<T>, launch, job, false, stream);
  start(apply_kernel<T, kPool>, launch, job, false, stream);
}

template <typename T, bool kPool>
void run_backward(const NormGradientJob& job, StreamHandle stream) {
  const Launch launch = launch_of<T>(job.shape);
  if (in_one_kernel(job.shape)) {
    start(backward_kernel<T, kPool>, launch, job, true, stream);
    return;
  }
  start(gradient_sums_kernel<T, kPool>, launch, job, false, stream);
  start(write_gradients_kernel<T, kPool>, launch, job, false, stream);
}

}  // namespace

void norm_forward(const NormJob& job, StreamHandle stream) {
  if (job.shape.low) {
    job.shape.pool ? run_forward<__nv_bfloat16, true>(job, stream)
                   : run_forward<__nv_bfloat16, false>(job, stream);
  } else {
    job.shape.pool ? run_forward<float, true>(job, stream)
                   : run_forward<float, false>(job, stream);
  }
}

void norm_backward(const NormGradientJob& job, StreamHandle stream) {
  if (job.shape.low) {
    job.shape.pool ? run_backward<__nv_bfloat16, true>(job, stream)
                   : run_backward<__nv_bfloat16, false>(job, stream);
  } else {
    job.shape.pool ? run_backward<float, true>(job, stream)
                   : run_backward<float, false>(job, stream);
  }
}

std::size_t norm_scratch(const NormShape& shape) {
  return in_one_kernel(shape) ? 0
                              : 2 * static_cast<std::size_t>(slices_of(shape)) *
                                    static_cast<std::size_t>(shape.channels);
}

}  // namespace winnow::gpu
