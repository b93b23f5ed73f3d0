// Robust aggregation: the models of a round held until all are there, and rules that a few bad ones
// among them cannot steer (spec: baselines 9 to 13; ARFL is in robust_arfl.h).
//
// Buffers are treated like parameters. Counters never enter a distance and become a rounded mean.
// All models lie on the CPU. Every rule gives the same bits whatever the number of threads, and
// beside the models needs memory for a few numbers per coordinate at most.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/federation/robust/robust_blocks.h"
#include "winnow/model/state.h"

namespace winnow {

// The models of a round in the order of client ids, so that no rule depends on the order in which
// they came. Models are shared, not copied; one on a GPU is moved to the CPU.
class HeldModels {
 public:
  // Throws Error(kind peer) when the layout differs from the others'.
  void add(std::int64_t client, const State& model, double weight, double samples);
  void clear();
  // Hands everything over and is empty after; throws Error(kind run) when nothing was added.
  HeldModels take();

  std::int64_t size() const { return std::ssize(models_); }
  const std::vector<std::int64_t>& clients() const { return clients_; }
  const std::vector<State>& models() const { return models_; }
  const std::vector<double>& weights() const { return weights_; }
  const std::vector<double>& samples() const { return samples_; }
  at::Device device() const { return device_; }  // where the models came from
  // The ids of the clients at these places.
  std::vector<std::int64_t> clients_at(std::span<const std::int64_t> places) const;

 private:
  std::vector<std::int64_t> clients_;
  std::vector<State> models_;
  std::vector<double> weights_;
  std::vector<double> samples_;
  at::Device device_ = at::kCPU;
};

// The median of every coordinate, the mean of the two middle values of an even number (spec:
// baselines 10). Counters become the plain mean. Needs a model.
State coordinate_median(std::span<const State> models, std::size_t threads = aggregation_threads());

// The mean of every coordinate without its `per_end` smallest and `per_end` largest values, the
// others weighted by their models' factors (spec: baselines 9). Of equal values that of the earlier
// model counts as smaller. Counters become the plain mean. Needs one positive factor per model and
// 2 per_end < models.
State trimmed_mean(std::span<const State> models, std::span<const double> factors,
                   std::int64_t per_end, std::size_t threads = aggregation_threads());

struct GeometricMedianOptions {
  std::int64_t reweightings = 4;
  double smallest_distance = 1e-6;  // nu
  // Instead of a fixed number: until ||z - z_before|| < 1e-5 ||z||, 100 at most.
  bool until_converged = false;
};

struct GeometricMedian {
  State model;
  std::int64_t passes = 0;  // over the models, the first mean counted
  double objective = 0.0;   // weighted mean distance of the models from `model`
};

// The smoothed Weiszfeld iteration of RFA (spec: baselines 13), from the weighted mean on. Counters
// are weighted like the rest in the last pass. Throws Error(kind run) when all weights are zero.
GeometricMedian geometric_median(std::span<const State> models, std::span<const double> weights,
                                 const GeometricMedianOptions& options = {},
                                 std::size_t threads = aggregation_threads());

}  // namespace winnow
