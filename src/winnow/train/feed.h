// From stored bytes to network input: gather by index, padded random crop, flip, normalise, resize.
// The whole data set lives on the device once; a batch is made there.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "winnow/data/data_set.h"

namespace winnow {

inline constexpr std::int64_t kCropPadding = 4;  // spec: label-noise 0.5, zero-pad 4

// Random crop and flip of each sample of a batch: rows of (dy, dx, flip) with dy, dx in
// 0..2*kCropPadding and flip 0 or 1. Undefined: images as they are.
using Jitter = at::Tensor;  // int64 [batch, 3]

// Shared by all lanes of a device; const and thread-safe.
class Feed {
 public:
  // Images are moved to `device`; `resize` > 0 scales every batch to a square of that size.
  Feed(const at::Tensor& images, const Normalisation& normalisation, std::int64_t resize,
       at::Device device);

  // Float images of the samples `index` (int64 [batch], on the device). `buffer` is reused between
  // calls where it fits, so a returned tensor is valid until the next call with it.
  at::Tensor batch(const at::Tensor& index, const Jitter& jitter, at::Tensor& buffer) const;

  // Scaled to the size networks are fed with, where that is another one.
  at::Tensor resized(const at::Tensor& images) const;

  at::Device device() const { return images_.device(); }
  // The stored bytes [count, channels, height, width] and, per channel, how they are normalised:
  // byte * scale + shift.
  const at::Tensor& images() const { return images_; }
  const at::Tensor& scale() const { return scale_; }
  const at::Tensor& shift() const { return shift_; }
  std::int64_t stored_height() const { return images_.size(2); }
  std::int64_t stored_width() const { return images_.size(3); }
  std::int64_t channels() const { return images_.size(1); }
  std::int64_t height() const { return resize_ > 0 ? resize_ : images_.size(2); }
  std::int64_t width() const { return resize_ > 0 ? resize_ : images_.size(3); }

 private:
  void fill_on_cpu(const at::Tensor& index, const Jitter& jitter, at::Tensor& out) const;
  at::Tensor make_on_device(const at::Tensor& index, const Jitter& jitter) const;

  at::Tensor images_;                           // uint8 [count, channels, height, width]
  std::vector<std::array<float, 256>> levels_;  // per channel: byte to normalised value (CPU)
  at::Tensor scale_, shift_;                    // the same as value * scale + shift (device)
  std::int64_t resize_ = 0;
};

}  // namespace winnow
