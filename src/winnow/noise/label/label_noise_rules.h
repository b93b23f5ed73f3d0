// The rules that label noise is built from, each small enough to check by hand, and the noises of
// the papers made of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "winnow/base/random.h"
#include "winnow/noise/label/label_noise.h"

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

// The chances of what a label becomes: 1 - mu to stay, mu / (classes - 1) for every other class.
// spec: partitions L2
std::vector<double> symmetric_row(std::int64_t label, std::int64_t classes, double mu);

// Each label is drawn anew from its row of the matrix. Returns how many changed.
std::int64_t draw_from_matrix(Stream& stream, std::span<std::int64_t> labels,
                              std::span<const double> matrix, std::int64_t classes);

// Classes of which all pairs are in one matrix: memory grows with their square.
inline constexpr std::int64_t kMostMatrixClasses = 1000;

// A random matrix, row-major [true][given], whose diagonal sums to classes * (1 - amount) and of
// whose other entries the share `sparsity` is 0, but every row with noise has a class to flip to.
// Every class stays the likeliest origin of its own label: p(given i) < p(given i | true i) with
// equally frequent classes. Nothing where no such matrix is found. spec: rivals 5.6
std::optional<std::vector<double>> sparse_matrix(Stream& stream, std::int64_t classes,
                                                 double amount, double sparsity);

// The built-in label noises.
using ClientNoises = std::vector<ClientNoise>;

struct FedCorrLabels final : LabelNoiseRule {
  double rho = 0.6;
  double tau = 0.5;
  bool exact_count = false;
  bool labels_0_9 = false;

  void declare(Params& params) override;
  ClientNoises plan(const LabelNoiseContext& context, Stream& stream) const override;
};

struct ClipFLLabels final : LabelNoiseRule {
  double rho = 0.5;
  double mu = 0.5;

  void declare(Params& params) override;
  ClientNoises plan(const LabelNoiseContext& context, Stream& stream) const override;
};

struct FedRNLabels final : LabelNoiseRule {
  std::string type = "symmetric";
  double low = 0.0;
  double high = 0.4;
  double low2 = 0.0;
  double high2 = 0.4;

  void declare(Params& params) override;
  void finish(const Json& table, std::string_view where) override;
  ClientNoises plan(const LabelNoiseContext& context, Stream& stream) const override;
};

struct FedNCLBernoulli final : LabelNoiseRule {
  double p = 0.6;

  void declare(Params& params) override;
  ClientNoises plan(const LabelNoiseContext& context, Stream& stream) const override;
};

struct FedNCLGaussian final : LabelNoiseRule {
  double mean = 0.3;
  double std = 0.4;

  void declare(Params& params) override;
  ClientNoises plan(const LabelNoiseContext& context, Stream& stream) const override;
};

struct TransitionMatrix final : LabelNoiseRule {
  std::string file;
  std::vector<double> matrix;
  double rho = 1.0;

  void declare(Params& params) override;
  void finish(const Json& table, std::string_view where) override;
  ClientNoises plan(const LabelNoiseContext& context, Stream& stream) const override;
};

struct SparseMatrix final : LabelNoiseRule {
  double amount = 0.2;
  double sparsity = 0.8;
  double rho = 1.0;

  void declare(Params& params) override;
  ClientNoises plan(const LabelNoiseContext& context, Stream& stream) const override;
};

struct HumanLabels final : LabelNoiseRule {
  std::string file;
  double rho = 1.0;
  std::string levels = "same";
  double level = 1.0;
  double mean = 0.3;
  double std = 0.4;

  void declare(Params& params) override;
  void finish(const Json& table, std::string_view where) override;
  ClientNoises plan(const LabelNoiseContext& context, Stream& stream) const override;
};

}  // namespace winnow
