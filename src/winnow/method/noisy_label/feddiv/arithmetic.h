// The arithmetic of FedDiv, free of messages and of clients (spec: rivals 1).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/federation/by_client.h"
#include "winnow/stats/mixture.h"

namespace winnow::feddiv {

// Whose filter tells clean samples from noisy ones.
enum class FilterOf { all_clients, own };

// The method's parameters. Client and server sides share them.
struct Options {
  std::int64_t warmup = 5;
  double warmup_fraction = 0.0;
  std::int64_t usual_rounds = 950;
  FilterOf filter = FilterOf::all_clients;
  bool relabel = true;
  bool sampler = true;
  double zeta = 0.75;
  double xi = 0.5;
  double m = 0.2;
  double eta = 1.0;
  double mixup = 1.0;
  double clean_below = 0.1;
  double relabel_above = 0.2;
  std::int64_t wait = 5;
  bool literal_code = false;

  // The code swaps the two, and its prior looks at confident samples only.
  double prior_weight() const { return literal_code ? m : xi; }
  double prior_momentum() const { return literal_code ? xi : m; }
  double prior_confidence() const { return literal_code ? 0.85 : 0.0; }
};

void declare(Options& options, Params& params);

// A filter is a mixture of the normalised losses of clean and of noisy samples.
using Filter = MixtureParameters;

// As it travels: both means, both variances, both weights; the clean component first.
std::vector<double> values_of(const Filter& filter);
// Nothing unless there are six finite values, with variances above 0 and weights that are shares.
std::optional<Filter> filter_of(std::span<const double> values);

// What one client contributes to the filter of all.
struct Contribution {
  Filter filter;
  double samples = 0.0;

  bool operator==(const Contribution&) const = default;
};
// sum_k g_k (mu, sigma^2, pi)_k with g_k = n_k / n; `literal`: variances with g_k^2, as the code
// has it. Needs a contribution with samples.
Filter mean_filter(const ByClient<Contribution>& clients, bool literal);

// What the received model says of every local sample.
struct Prediction {
  std::vector<float> confidence;    // largest probability
  std::vector<std::int64_t> label;  // its class
};

// What a client trains on.
struct Chosen {
  double noisy = 0.0;               // delta_k, the share that the filter takes for noisy
  std::vector<bool> suspected;      // which ones these are
  std::vector<bool> used;           // trained on
  std::vector<std::int64_t> label;  // with these labels
};

// Steps 2 and 3 of spec: rivals 1. `clean` are the probabilities of the clean component, `local`
// the classes that the client remembers, or none before it has taken part, and `before` how often
// it has.
Chosen choose(std::span<const double> clean, std::span<const std::int64_t> given,
              const Prediction& prediction, std::span<const std::int64_t> local,
              std::int64_t before, const Options& options);

// argmax_c (f_c - xi log prior_c) of every row of logits, `prior.size()` values each.
std::vector<std::int64_t> local_classes(std::span<const double> logits,
                                        std::span<const double> prior, double xi);

// m prior + (1 - m) mean softmax over the rows whose largest probability, after the adjustment by
// xi log prior, exceeds `confidence`; the prior itself where there is none.
std::vector<double> next_prior(std::span<const double> logits, std::span<const double> prior,
                               const Options& options);

}  // namespace winnow::feddiv
