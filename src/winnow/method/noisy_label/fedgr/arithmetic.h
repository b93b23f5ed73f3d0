// The arithmetic of FedGR, free of messages and of clients (spec: rivals 4).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "winnow/base/params.h"
#include "winnow/stats/mixture.h"

namespace winnow::fedgr {

// Who fits the mixture of losses: the server over the clients of a round, or every client by
// itself.
enum class Selection { inter, intra };

// The method's parameters. Client and server sides share them.
struct Options {
  std::int64_t sniff_rounds = 100;
  Selection selection = Selection::inter;
  double confidence = 0.9;
  double upper_noise = 0.8;
  double ema_decay = 0.9;
  std::int64_t ema_rounds = 100;
  double least_refined = 0.5;
  double ema_weight = 1.0;
  double ema_temperature = 0.5;
  double feature_weight = 0.1;
  double feature_temperature = 0.5;
  bool refine = true;
};

void declare(Options& options, Params& params);

// The mixture of losses that tells clean samples from noisy ones; the constants are the code's.
inline constexpr MixtureOptions kFit{.tol = 1e-2, .reg = 5e-4, .max_iter = 20};

// mean + (value - mean) / (count + 1), of every value: `mean` is that of `count` values before.
void roll(std::vector<double>& mean, std::span<const double> values, std::int64_t count);

// What a client makes of its samples with the probabilities `clean`: the share it takes for noisy,
// and the refined labels. A clean sample keeps its label; a noisy one takes the predicted class
// where the prediction is sure, and -1 where it is not.
struct Refined {
  double noisy = 0.0;
  double known = 0.0;  // share of samples with a refined label
  std::vector<bool> suspected = {};
  std::vector<std::int64_t> labels = {};
};
Refined refine(std::span<const double> clean, std::span<const std::int64_t> given,
               std::span<const float> confidence, std::span<const std::int64_t> predicted,
               const Options& options);

// Whether the client's slow model starts again from the received one.
bool resets(const Refined& refined, std::int64_t round, const Options& options);

}  // namespace winnow::fedgr
