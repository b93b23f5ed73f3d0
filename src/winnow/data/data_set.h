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
  bool augment = false;     // random crop and flip in training, by default
  std::int64_t crop = 0;    // side of the crops, and of what networks see; 0: the images' own
  // Who holds each training sample, where the data comes split already, and what they are called;
  // empty otherwise.
  std::vector<std::int64_t> owners = {};
  std::vector<std::string> client_names = {};
  // What each training sample is called, a path of its file mostly; empty where it is a number
  // only.
  std::vector<std::string> names = {};
  std::vector<std::string> test_names = {};  // the same of a test part that was drawn from them
  std::vector<std::string> unused_columns;   // of the image list, which nothing reads

  std::int64_t channels() const { return train.images.size(1); }
  std::int64_t height() const { return train.images.size(2); }
  std::int64_t width() const { return train.images.size(3); }
  // A training sample for people: its name or else its number.
  std::string name_of(std::int64_t sample) const {
    return names.empty() ? std::to_string(sample) : names[static_cast<std::size_t>(sample)];
  }
  // What networks see, unless they have it resized.
  std::int64_t seen_height() const { return crop > 0 ? crop : height(); }
  std::int64_t seen_width() const { return crop > 0 ? crop : width(); }
};

// Throws Error(kind data) when a part of the set contradicts another (sizes, label range,
// channels).
void validate(const DataSet& set);

}  // namespace winnow
