#include "winnow/method/noisy_label/fedgr/arithmetic.h"

namespace winnow::fedgr {

void declare(Options& options, Params& params) {
  params
      .add("sniff_rounds", options.sniff_rounds,
           "rounds at the start that train on the given labels and gather losses")
      .at_least(1)
      .source("released code: every client about ten times");
  params
      .add("selection", options.selection,
           {{"inter", Selection::inter}, {"intra", Selection::intra}},
           "who fits the mixture of losses: the server, to the losses of the round's clients "
           "(inter; "
           "the losses of single samples leave the client), or every client to its own (intra)")
      .source("released code");
  params
      .add("refine", options.refine,
           "give noisy samples the labels of the global model; false: leave them out")
      .source("paper; false: its ablation");
  params
      .add("confidence", options.confidence,
           "confidence above which a noisy sample takes the global model's class")
      .range(0, 1)
      .source("released code");
  params
      .add("upper_noise", options.upper_noise,
           "share of noisy samples from which a client trains on refined labels alone")
      .range(0, 1)
      .source("released code");
  params
      .add("ema_weight", options.ema_weight,
           "weight of the predictions of the client's slow model, a moving average")
      .at_least(0)
      .source("here; not seen in the code");
  params
      .add("ema_temperature", options.ema_temperature,
           "temperature of the loss that makes the model follow the slow one")
      .above(0)
      .source("released code");
  params
      .add("ema_decay", options.ema_decay,
           "how much a client's slow model keeps of itself when it moves towards a received or "
           "trained model")
      .range(0, 1)
      .source("released code");
  params
      .add("ema_rounds", options.ema_rounds,
           "rounds at the start in which the slow model is the received one")
      .at_least(0)
      .source("released code");
  params
      .add("least_refined", options.least_refined,
           "share of samples with a refined label below which a very noisy client's slow model is "
           "the "
           "received one")
      .range(0, 1)
      .source("released code");
  params
      .add("feature_weight", options.feature_weight,
           "weight of the distance between the features of the trained and the received model")
      .at_least(0)
      .source("released code");
  params
      .add("feature_temperature", options.feature_temperature,
           "temperature by which features are divided before those of the trained and the received "
           "model are compared")
      .above(0)
      .source("released code");
}

void roll(std::vector<double>& mean, std::span<const double> values, std::int64_t count) {
  for (std::size_t i = 0; i < mean.size(); ++i) {
    mean[i] += (values[i] - mean[i]) / static_cast<double>(count + 1);
  }
}

// spec: rivals 4.2
Refined refine(std::span<const double> clean, std::span<const std::int64_t> given,
               std::span<const float> confidence, std::span<const std::int64_t> predicted,
               const Options& options) {
  Refined refined{.suspected = std::vector<bool>(given.size(), false),
                  .labels = {given.begin(), given.end()}};
  const auto share = 1.0 / static_cast<double>(given.empty() ? 1 : given.size());
  std::int64_t noisy = 0;
  std::int64_t known = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    refined.suspected[i] = clean[i] < 0.5;
    if (refined.suspected[i]) {
      ++noisy;
      const bool sure = options.refine && static_cast<double>(confidence[i]) > options.confidence;
      refined.labels[i] = sure ? predicted[i] : -1;
    }
    known += refined.labels[i] >= 0 ? 1 : 0;
  }
  refined.noisy = static_cast<double>(noisy) * share;
  refined.known = static_cast<double>(known) * share;
  return refined;
}

bool resets(const Refined& refined, std::int64_t round, const Options& options) {
  return round < options.ema_rounds ||
         (refined.noisy > options.upper_noise && refined.known < options.least_refined);
}

}  // namespace winnow::fedgr
