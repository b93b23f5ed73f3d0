// The plan of one local training: every random choice of it, drawn before it starts from streams
// keyed by (seed, round, client). A step then only reads its slice, on any device and in any lane.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/train/feed.h"
#include "winnow/train/options.h"

namespace winnow {

// How images are varied: where a crop may begin, in each direction, and mirrored or not. None
// leaves them as they are.
struct Augment {
  std::int64_t places = 0;

  Augment() = default;
  explicit Augment(std::int64_t crop_places) : places(crop_places) {}
  // Crops of padded images, or none.
  Augment(bool on) : places(on ? kPaddedPlaces : 0) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return places > 0; }
};

// Names the random streams of one participation.
struct TrainKey {
  std::uint64_t seed = 0;
  std::int64_t round = 0;
  std::int64_t client = 0;
};

// What is trained on: sample indices in the data set and their given labels, side by side.
struct LocalSet {
  std::span<const std::int64_t> samples;
  std::span<const std::int64_t> labels;

  std::int64_t size() const { return std::ssize(samples); }
};

// Entries of all epochs one after the other; a batch is a slice [start, start + size).
struct Plan {
  struct Batch {
    std::int64_t start = 0;
    std::int64_t size = 0;
    bool opens_epoch = false;
  };
  std::vector<Batch> batches;
  at::Tensor index;        // int64 [entries]: sample in the data set
  at::Tensor place;        // int64 [entries]: the same as a place in the local set
  at::Tensor label;        // int64 [entries]
  std::int64_t views = 1;  // of each sample in a batch, each with a jitter of its own
  at::Tensor jitter;       // int64 [views * entries, 3], undefined without augmentation
  at::Tensor partner;  // int64 [entries]: mixup partner's place inside the batch; undefined if off
  at::Tensor lambda;   // float [batches]; undefined if mixup is off

  std::int64_t entries() const { return index.numel(); }
  // The part of one of `epochs` epochs, as a plan of its own.
  Plan epoch(std::int64_t number, std::int64_t epochs) const;
};

// The first view's jitter does not depend on the number of views.
[[nodiscard]] Plan make_plan(const LocalSet& set, const TrainOptions& options, Augment augment,
                             const TrainKey& key, std::int64_t views = 1);

// Crop and flip for one pass over `count` samples in fixed order (scoring with augmentation).
at::Tensor draw_jitter(std::int64_t count, std::uint64_t stream_key,
                       std::int64_t places = kPaddedPlaces);

}  // namespace winnow
