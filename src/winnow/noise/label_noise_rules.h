// The rules that label noise is built from, each small enough to check by hand, and the plans of
// the papers made of them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "winnow/base/random.h"
#include "winnow/noise/label_noise.h"

namespace winnow {

// A class or a place as an index.
inline std::size_t label_index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// FedCorr's level of a client: chosen * (tau + (1 - tau) * u). spec: partitions L1
double fedcorr_level(bool chosen, double tau, double u);

// Rate of the i-th of `group` clients on FedRN's ramp; `high` itself is never reached. spec:
// partitions L3
double ramp_rate(double low, double high, std::int64_t i, std::int64_t group);

// The class before this one: 0 -> classes-1, 1 -> 0, ... spec: partitions L3
std::int64_t pairflip(std::int64_t label, std::int64_t classes);

// One of the other classes, all equally likely.
std::int64_t other_label(Stream& stream, std::int64_t label, std::int64_t classes);

// Each label is redrawn uniformly from `classes` classes, its own included, with probability
// `level`. Returns how many were redrawn. spec: partitions L1
std::int64_t redraw_some(Stream& stream, std::span<std::int64_t> labels, double level,
                         std::int64_t classes);

// Exactly `count` labels at random places are redrawn in the same way.
std::int64_t redraw_count(Stream& stream, std::span<std::int64_t> labels, std::int64_t count,
                          std::int64_t classes);

// Row-major classes x classes: 1 - mu on the diagonal, mu / (classes - 1) elsewhere. spec:
// partitions L2
std::vector<double> symmetric_matrix(std::int64_t classes, double mu);

// Each label is drawn anew from its row of the matrix. Returns how many changed.
std::int64_t draw_from_matrix(Stream& stream, std::span<std::int64_t> labels,
                              std::span<const double> matrix, std::int64_t classes);

// The plans of the table of label noises.
using ClientNoises = std::vector<ClientNoise>;
ClientNoises plan_fedcorr(const LabelNoiseOptions& options, const LabelNoiseContext& context,
                          Stream& stream);
ClientNoises plan_clipfl(const LabelNoiseOptions& options, const LabelNoiseContext& context,
                         Stream& stream);
ClientNoises plan_fedrn(const LabelNoiseOptions& options, const LabelNoiseContext& context,
                        Stream& stream);
ClientNoises plan_fedncl_bernoulli(const LabelNoiseOptions& options,
                                   const LabelNoiseContext& context, Stream& stream);
ClientNoises plan_fedncl_gaussian(const LabelNoiseOptions& options,
                                  const LabelNoiseContext& context, Stream& stream);
ClientNoises plan_transition_matrix(const LabelNoiseOptions& options,
                                    const LabelNoiseContext& context, Stream& stream);
ClientNoises plan_human_labels(const LabelNoiseOptions& options, const LabelNoiseContext& context,
                               Stream& stream);

}  // namespace winnow
