// The arithmetic of Winnow's own method, free of messages and of clients (spec: winnow 2, 4). It
// lives in namespace winnowing: a winnow inside of winnow would hide the outer one.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/federation/by_client.h"
#include "winnow/stats/noise_kind.h"

namespace winnow::winnowing {

// What a client whose labels are doubted trains on.
enum class Remedy {
  sift,     // the samples whose label the evidence bears out, and those it is sure of another for
  forward,  // all labels as given, through its noise: -log sum_j p_j T_ji
  none,     // its labels as they are
};

// The names are those of the method's parameters. Client and server sides share them.
struct Options {
  std::int64_t warmup = 5;
  std::int64_t every = 4;
  double memory = 0.5;
  double enter = 0.15;
  double leave = 0.08;
  double doubt = 0.05;
  Remedy remedy = Remedy::sift;
  double sure = 0.95;
  bool client_mix = true;
  bool guard = true;
  double against = 0.1;
  double reach = 10.0;
  double course = 0.3;
};

void declare(Options& options, Params& params);

// Whether clients are examined at the end of that round: from the last round of the warm-up on,
// every so many rounds, and not in the last round of the run, after which nothing could follow.
bool examines(const Options& options, std::int64_t round, std::int64_t rounds);

// What a client tells of its classes: the mean probability of a class over the samples that carry
// its label, and how many these are. A class it does not have is 0 and 0.
struct ClassMeans {
  std::vector<double> mean;
  std::vector<double> count;
};

// The thresholds of confident learning from what clients told (spec: winnow 2.1), and the share of
// the labels that each class has. A class that nobody has gets a threshold of 2, which no
// probability reaches.
struct Thresholds {
  std::vector<double> values;
  std::vector<double> shares;
};
Thresholds thresholds(const std::map<std::int64_t, ClassMeans>& clients, std::size_t classes);

// What is known of a client's labels.
struct Labelling {
  NoiseKind kind = NoiseKind::none;
  double rate = 0.0;     // of wrong labels
  double honest = 1.0;   // probability that there are none beyond the model's own errors
  bool doubted = false;  // whether the client is treated
  // [true][given], for doubted clients: what a given label says of each class (spec: winnow 2.3).
  std::vector<double> evidence = {};

  bool operator==(const Labelling&) const = default;
};

// From the counts of those who answered to what is known of their labels. `before` has what was
// known; a client is doubted from `enter` on and until its rate is below `leave`.
std::map<std::int64_t, Labelling> examine(const std::map<std::int64_t, JointCounts>& counts,
                                          std::span<const double> shares,
                                          const ByClient<Labelling>& before,
                                          const Options& options);

// e_ji = T_ji m_j / s_j with every flip 0.98 of itself and 0.02 spread over the labels, and the mix
// (m_j n + 1) / (n + C): no class is out of the question. Without `client_mix` m_j / s_j is left
// out.
std::vector<double> evidence(const KindFinding& finding, std::span<const double> shares,
                             double counts, bool client_mix);

// q_j proportional to p_j e_ji: how likely each class is the true one of a sample given `label`.
// All zero where nothing is possible.
std::vector<double> posterior(std::span<const float> p, std::int64_t label,
                              std::span<const double> evidence);

// What a doubted client makes of its samples. A label that is at least as likely as not is kept; a
// sample for which another class is at least as likely as `sure` is kept under that one.
struct Sifted {
  std::vector<std::int64_t> labels;
  std::vector<bool> kept;
};
// `p` are rows of probabilities, one per label.
Sifted sift(std::span<const float> p, std::span<const std::int64_t> labels,
            std::span<const double> evidence, double sure);

}  // namespace winnow::winnowing
