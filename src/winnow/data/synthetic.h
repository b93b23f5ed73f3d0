// A generated image set: no files, any size, a difficulty that can be dialled. For first steps,
// tests and benchmarks; not a stand-in for a published data set.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "winnow/data/data_set.h"

namespace winnow {

struct SyntheticOptions {
  std::int64_t samples = 10'000;
  std::int64_t test_samples = 2'000;
  std::int64_t classes = 10;
  std::int64_t channels = 1;
  std::int64_t size = 28;   // height and width
  double difficulty = 0.3;  // 0: trivially separable .. 1: hard
  std::uint64_t seed = 1;
};

// Every class has a few smooth random patterns. A sample is one of them, shifted a little, with its
// own contrast, mixed with a pattern of another class, plus Gaussian pixel noise; mixing and noise
// grow with the difficulty. Above a difficulty of 2/3 the other class may outweigh the sample's
// own. Sample i depends on seed, part and i alone; its label is i modulo classes. Fills all but
// `name`, `normalisation` and `augment`.
DataSet make_synthetic(const SyntheticOptions& options);

// The patterns without shift: float [classes, patterns, channels, size, size], mean 0, deviation 1.
at::Tensor synthetic_patterns(const SyntheticOptions& options);

}  // namespace winnow
