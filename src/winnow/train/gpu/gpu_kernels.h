// The parts of a captured training step that LibTorch has no single kernel for. Plain pointers into
// device memory; everything is enqueued on the given stream (a cudaStream_t) and nothing waits.
#pragma once

#include <cstdint>

namespace winnow::gpu {

using StreamHandle = void*;

// Where a training stands, in device memory, so that a replayed graph finds its next batch.
struct Cursor {
  std::int32_t entry = 0;  // first entry of the next batch in the plan
  std::int32_t step = 0;
};

// The next batch of a plan: gathers images by index, crops, flips and normalises them, mixes them
// up with their partners, and puts the labels beside them.
struct BatchJob {
  const std::uint8_t* images = nullptr;  // [count, channels, height, width]
  std::int32_t channels = 0;
  std::int32_t height = 0;
  std::int32_t width = 0;
  std::int32_t padding = 0;      // of the random crop
  const float* scale = nullptr;  // per channel: byte * scale + shift
  const float* shift = nullptr;
  const std::int32_t* index = nullptr;    // per entry
  const std::int32_t* label = nullptr;    // per entry
  const std::uint8_t* jitter = nullptr;   // per entry (dy, dx, flip); null: images as they are
  std::int32_t views = 1;                 // of each sample, one after the other
  std::int32_t view_stride = 0;           // entries between the jitters of two views
  const std::int32_t* partner = nullptr;  // per entry, place inside the batch; null: no mixup
  const float* lambda = nullptr;          // per step
  const Cursor* cursor = nullptr;
  std::int32_t ahead = 0;  // batches of this size between the cursor and this one
  std::int32_t size = 0;
  void* out = nullptr;         // [views * size, channels, height, width]
  bool low = false;            // out is bfloat16, else float32
  bool channels_last = false;  // out lies in memory as [size, height, width, channels]
  std::int64_t* labels = nullptr;
  std::int64_t* partner_labels = nullptr;
  float* lambda_now = nullptr;
  std::int64_t* entries = nullptr;  // the batch's entries and its step; null: not asked for
  std::int64_t* step = nullptr;
};
void make_batch(const BatchJob& job, StreamHandle stream);

// One parameter tensor: its gradient, and where its values lie in the flat buffers. A convolution's
// weights [out, inner, area] may lie as [out, area, inner] in the copy and in the gradient.
struct Piece {
  const void* gradient = nullptr;  // null: the tensor took no part
  std::int64_t offset = 0;         // in the weights
  std::int64_t copy_offset = 0;    // in the copy
  std::int32_t low = 0;            // the gradient is bfloat16, else float32
  std::int32_t inner = 1;
  std::int32_t area = 1;
  std::int32_t copy_permuted = 0;
  std::int32_t gradient_permuted = 0;
};
// A run of values of one piece that one block of threads updates.
struct Chunk {
  std::int32_t piece = 0;
  std::int32_t start = 0;
  std::int32_t size = 0;
};
inline constexpr std::int32_t kChunk = 2048;
// How many values of a piece make a chunk: whole outputs where that lets a block turn its share of
// the weights round in its own memory.
std::int32_t chunk_of(const Piece& piece);

// One SGD step over all pieces, as sgd_step() defines it; `velocity` must start as zero, and is
// neither read nor written where it is null, for steps without momentum.
struct UpdateJob {
  const Piece* pieces = nullptr;
  const Chunk* chunks = nullptr;
  std::int32_t chunk_count = 0;
  float* weights = nullptr;
  void* copy = nullptr;   // of the weights: what the network reads
  bool copy_low = false;  // it is bfloat16, else float32
  float* velocity = nullptr;
  const float* knobs = nullptr;   // lr, momentum, weight decay
  const float* anchor = nullptr;  // null: no pull
  const float* pull = nullptr;    // strength, per step
  const float* distance =
      nullptr;                   // ||weights - anchor|| for the pull of a norm; null: of a square
  const float* drift = nullptr;  // added to the gradient; null: nothing
  const Cursor* cursor = nullptr;
  std::int32_t ahead = 0;       // steps between the cursor and this one
  const float* loss = nullptr;  // of the step, written down in `losses`; null: not by this update
  float* losses = nullptr;      // per step
};
void update(const UpdateJob& job, StreamHandle stream);
// Only fills the copy from the weights.
void refresh(const UpdateJob& job, StreamHandle stream);

// Mean cross-entropy of rows of logits against labels, smoothed and with a temperature as
// smoothed_cross_entropy() defines it, and its gradient with respect to the logits.
struct LossJob {
  const float* logits = nullptr;  // [rows, classes]
  const std::int64_t* labels = nullptr;
  std::int32_t rows = 0;
  std::int32_t classes = 0;
  float smoothing = 0.0F;
  float temperature = 1.0F;
  float* loss = nullptr;
  float* gradient = nullptr;  // [rows, classes]
};
void cross_entropy(const LossJob& job, StreamHandle stream);

// Moves the cursor behind so many steps and the entries of their batches.
void advance(Cursor* cursor, std::int32_t steps, std::int32_t entries, StreamHandle stream);

}  // namespace winnow::gpu
