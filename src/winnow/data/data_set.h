// A data set in memory: images held once as bytes, true labels, and how to feed them to a network.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace winnow {

using Labels = std::vector<std::int64_t>;

// Labels come from files of anybody, and what is counted by class grows with the largest of them.
inline constexpr std::int64_t kMostClasses = 10'000;

// Images with their true labels.
struct Samples {
  at::Tensor images;  // uint8, contiguous, [count, channels, height, width], on the CPU
  Labels labels;

  std::int64_t size() const { return std::ssize(labels); }
};

// How bytes become network input: scale to [0,1], then (value - mean) / std per channel.
struct Normalisation {
  std::vector<double> mean;
  std::vector<double> std;
};

struct DataSet {
  std::string name;
  Samples train;
  Samples test;
  Samples validation;  // the server's own, clean; empty where there is none
  // The labels that clients see before any noise is injected, where they differ from the true ones
  // (human annotations); empty otherwise.
  Labels given;
  std::int64_t classes = 0;
  std::vector<std::string> class_names;  // as many as classes
  Normalisation normalisation;
  bool test_drawn = false;  // the test part was drawn from the same files as the training part
  bool augment = false;     // padded random crop and flip in training, by default

  std::int64_t channels() const { return train.images.size(1); }
  std::int64_t height() const { return train.images.size(2); }
  std::int64_t width() const { return train.images.size(3); }
};

// Throws Error(kind data) when a part of the set contradicts another (sizes, label range,
// channels).
void validate(const DataSet& set);

}  // namespace winnow
