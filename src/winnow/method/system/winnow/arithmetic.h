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
  weigh,  // all labels, less on those that the image speaks against
  none,   // its labels as they are
};

// The names are those of the method's parameters. Client and server sides share them.
struct Options {
  std::int64_t warmup = 5;
  std::int64_t every = 4;
  double memory = 0.5;
  double enter = 0.15;
  double leave = 0.08;
  double doubt = 0.05;
  bool any_kind = false;
  Remedy remedy = Remedy::weigh;
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

// The thresholds of confident learning from what clients told (spec: winnow 2.1). A class that
// nobody has gets 2, which no probability reaches.
std::vector<double> thresholds(const std::map<std::int64_t, ClassMeans>& clients,
                               std::size_t classes);

// What is known of a client's labels.
struct Labelling {
  NoiseKind kind = NoiseKind::none;
  double rate = 0.0;     // of wrong labels
  double honest = 1.0;   // probability that there are none beyond the model's own errors
  bool doubted = false;  // whether the client is treated
  // [given][class that models take a sample for], for doubted clients: how much a sample counts in
  // training, 0 to 1 (spec: winnow 2.3).
  std::vector<double> trust = {};

  bool operator==(const Labelling&) const = default;
};

// From the counts of those who answered to what is known of their labels. `before` has what was
// known; a client is doubted from `enter` on and until its rate is below `leave`.
std::map<std::int64_t, Labelling> examine(const std::map<std::int64_t, JointCounts>& counts,
                                          const ByClient<Labelling>& before,
                                          const Options& options);

// h_ik = min(1, D_ik / sum_j b_ji D_jk), b_ji in proportion to T_ji m_j: how much likelier models
// take a sample for class k if its label i is right than they do for the client's samples of that
// label. Every flip is 0.98 of itself and 0.02 spread over the labels, and the mix is
// (m_j n + 1) / (n + C), or even without `client_mix`: no class is out of the question.
std::vector<double> trust(const KindFinding& finding, const Confusion& honest, double counts,
                          bool client_mix);

// The share of each sample in the training of a doubted client. `p` are rows of probabilities, one
// per label; a sample for which they are confident of no class counts fully.
std::vector<double> shares(std::span<const float> p, std::span<const std::int64_t> labels,
                           std::span<const double> thresholds, std::span<const double> trust);

}  // namespace winnow::winnowing
