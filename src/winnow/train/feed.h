// From stored bytes to network input: gather by index, padded random crop, flip, normalise, resize.
// The whole data set lives on the device once; a batch is made there.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "winnow/data/data_set.h"

namespace winnow {

// What a network sees of samples when these are scored.
enum class ScoreView {
  augmented,  // as in training, with one draw for the pass
  clean,      // the images as they are
};

inline constexpr std::int64_t kCropPadding = 4;  // spec: label-noise 0.5, zero-pad 4
// Where a crop of a padded image may begin, in each direction.
inline constexpr std::int64_t kPaddedPlaces = 2 * kCropPadding + 1;

// Random crop and flip of each sample of a batch: rows of (dy, dx, flip) with dy, dx in
// 0..Feed::places()-1 and flip 0 or 1. Undefined: images as they are.
using Jitter = at::Tensor;  // int64 [batch, 3]

// Shared by all lanes of a device; const and thread-safe.
class Feed {
 public:
  // Images are moved to `device`; `resize` > 0 scales every batch to a square of that size. With
  // `crop` > 0 a random crop is a square of that size inside the image, which is a square larger by
  // an even number, and images without jitter are scaled to it; both before `resize`.
  Feed(const at::Tensor& images, const Normalisation& normalisation, std::int64_t resize,
       at::Device device, std::int64_t crop = 0);

  // Float images of the samples `index` (int64 [batch], on the device). `buffer` is reused between
  // calls where it fits, so a returned tensor is valid until the next call with it.
  at::Tensor batch(const at::Tensor& index, const Jitter& jitter, at::Tensor& buffer) const;

  // From images of the stored size, moved by a jitter or not, to what networks are fed with: the
  // middle of what was moved, scaled where the size is another one.
  at::Tensor fitted(at::Tensor images, bool moved) const;

  // Where a crop may begin, in each direction.
  std::int64_t places() const { return crop_ > 0 ? images_.size(2) - crop_ + 1 : kPaddedPlaces; }
  // How far images are moved at most. The middle of an image that is larger by twice that holds
  // nothing from outside.
  std::int64_t padding() const { return crop_ > 0 ? (images_.size(2) - crop_) / 2 : kCropPadding; }

  at::Device device() const { return images_.device(); }
  // The stored bytes [count, channels, height, width] and, per channel, how they are normalised:
  // byte * scale + shift.
  const at::Tensor& images() const { return images_; }
  const at::Tensor& scale() const { return scale_; }
  const at::Tensor& shift() const { return shift_; }
  std::int64_t stored_height() const { return images_.size(2); }
  std::int64_t stored_width() const { return images_.size(3); }
  std::int64_t channels() const { return images_.size(1); }
  std::int64_t height() const { return side(2); }
  std::int64_t width() const { return side(3); }

 private:
  std::int64_t side(std::int64_t dimension) const {
    const std::int64_t own = crop_ > 0 ? crop_ : images_.size(dimension);
    return resize_ > 0 ? resize_ : own;
  }
  void fill_on_cpu(const at::Tensor& index, const Jitter& jitter, at::Tensor& out) const;
  at::Tensor make_on_device(const at::Tensor& index, const Jitter& jitter) const;

  at::Tensor images_;                           // uint8 [count, channels, height, width]
  std::vector<std::array<float, 256>> levels_;  // per channel: byte to normalised value (CPU)
  at::Tensor scale_, shift_;                    // the same as value * scale + shift (device)
  std::int64_t resize_ = 0;
  std::int64_t crop_ = 0;
};

}  // namespace winnow
