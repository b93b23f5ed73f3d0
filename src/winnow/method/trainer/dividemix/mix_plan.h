// The batches that DivideMix makes of a client's clean samples and of the others (spec: baselines
// 24).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "winnow/train/plan.h"

namespace winnow::dividemix {

// How many views of a sample are trained on.
inline constexpr std::int64_t kViews = 2;

// What an epoch of one network is made of.
struct MixOptions {
  std::int64_t batch_size = 10;
  double alpha = 4.0;      // mixtures are drawn from Beta(alpha, alpha)
  double threshold = 0.5;  // a sample is clean above it
  Augment augment = {};
};

// Every batch holds the same number of labelled samples, first, and of unlabelled ones, or labelled
// ones alone where there is no other; in two views. Labelled samples come once each, in batches of
// batch_size of which the last may be short; the unlabelled ones are drawn from one shuffle after
// the other, as many as needed.
struct MixPlan {
  Plan plan;
  bool unlabelled = false;
  at::Tensor clean;    // float [entries]: probability of the sample to be clean
  at::Tensor partner;  // int64 [entries, 2]: for either view, what it is mixed with in its batch
  at::Tensor lambda;   // float [steps]: the own share in a mixture, at least 0.5
};

// `stream_key` names the random stream. Of no clean sample there is no batch.
MixPlan make_mix_plan(const LocalSet& set, std::span<const double> clean, const MixOptions& options,
                      std::uint64_t stream_key);

}  // namespace winnow::dividemix
