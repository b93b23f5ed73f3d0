// What kind of label noise a client has, from its confident counts (spec: audit 3).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "winnow/stats/confident.h"

namespace winnow {

enum class NoiseKind { none, symmetric, pair, class_dependent, random_labels };
inline constexpr std::array kNoiseKinds{NoiseKind::none, NoiseKind::symmetric, NoiseKind::pair,
                                        NoiseKind::class_dependent, NoiseKind::random_labels};
std::string_view kind_name(NoiseKind kind);  // "none", "symmetric", "pair", "class-dependent", ...

// How the model confuses samples whose labels are right: row by true class, summing to 1.
struct Confusion {
  std::int64_t classes = 0;
  std::vector<double> rows;
  double counts = 0.0;  // that it was taken from

  double at(std::int64_t from, std::int64_t to) const {
    return rows[static_cast<std::size_t>(from * classes + to)];
  }
};

// The confusion of the cleanest third of the clients. For each class clients are ranked by how far
// the rows of the other classes lie beside the diagonal, against what all clients together show, so
// that chance in a row does not choose it. Where the third holds fewer than 30 counts of the class,
// as many more clients are taken as are needed. Every cell gets a small share, so that none is
// impossible.
Confusion honest_confusion(std::span<const JointCounts> clients);

// The confusion of one of the models that `of_all` is of, by what is counted of clients with right
// labels that it judges; where these are few, nearly that of all.
Confusion model_confusion(const Confusion& of_all, const JointCounts& counts);

struct KindFit {
  double log_likelihood = 0.0;
  double bic = 0.0;     // the smaller, the better
  double weight = 0.0;  // share of exp(-bic / 2) among the kinds
  double rate = 0.0;    // of wrong labels by this kind
};

struct KindFinding {
  NoiseKind kind = NoiseKind::none;
  std::array<KindFit, kNoiseKinds.size()> fits{};  // in the order of kNoiseKinds
  // Wrong labels beyond the model's own errors, by the chosen kind; 0 for none.
  double rate = 0.0;
  // The mean of the rates of all kinds, by their weights.
  double expected_rate = 0.0;
  // As the chosen kind has them: the client's mix of true classes, and its flips [true][given],
  // rows that sum to 1. Both start from counts, so a client without any has an even mix.
  std::vector<double> mix = {};
  std::vector<double> flips = {};

  const KindFit& fit(NoiseKind of) const { return fits[static_cast<std::size_t>(of)]; }
};

// The likeliest kind by BIC. A sample of true class j is given i by the client's noise and counted
// as j' by the model, P(i, j') = sum over j of m_j T_ji D_jj'. The client's own mix of classes m is
// fitted along, so that neither a skewed mix nor the model's errors pass for noise. D is an
// estimate too: likelihoods count by the share of its counts among them and the client's.
KindFinding find_kind(const JointCounts& counts, const Confusion& honest);

}  // namespace winnow
