#include "winnow/method/fedcorr/rules.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "winnow/base/random.h"
#include "winnow/federation/selection.h"
#include "winnow/stats/mixture.h"
#include "winnow/train/loss.h"

namespace winnow::fedcorr {
namespace {

constexpr double kCountSlack = 1e-9;  // spec: label-noise 0.4

void declare_schedule(Options& options, Params& params) {
  params
      .add("iterations", options.iterations,
           "iterations of stage 1; each visits every client once. The method has its own number of "
           "rounds, `rounds` of the experiment is not used")
      .range(1, 1000000)
      .source("paper, CIFAR-10; CIFAR-100 10, Clothing1M 2");
  params
      .add("finetune_rounds", options.finetune_rounds,
           "rounds of stage 2, on clients considered clean; 0 leaves out stage 2 and its "
           "correction; `rounds` of the experiment is not used")
      .range(0, 1000000)
      .source("paper, CIFAR-10; CIFAR-100 450, Clothing1M 50");
  params
      .add("usual_rounds", options.usual_rounds,
           "rounds of stage 3, on all clients; `rounds` of the experiment is not used")
      .range(0, 1000000)
      .source("paper, CIFAR-10 and CIFAR-100; Clothing1M 50");
  params
      .add("stage1_fraction", options.stage1_fraction,
           "share of the clients in one round of stage 1; 0: one client after the other")
      .range(0, 1)
      .source("paper: 1/clients");
}

void declare_training(Options& options, Params& params) {
  params
      .add("beta", options.beta,
           "strength of the pull towards the received model in stage 1, times the client's "
           "estimated noise")
      .at_least(0)
      .source("paper");
  params
      .add("pull", options.pull, "whether the pull is the norm of the distance or the norm squared")
      .choices({"norm", "squared"})
      .source("released code; the paper squares");
  params
      .add("mixup", options.mixup,
           "alpha of Beta(alpha, alpha) for mixup; 0 is off; replaces train.mixup")
      .at_least(0)
      .source("paper");
  params
      .add("mixup_stage1_only", options.mixup_stage1_only, "train without mixup in stages 2 and 3")
      .source("released code: false; the paper's text: true");
}

void declare_detection(Options& options, Params& params) {
  params
      .add("lid_neighbours", options.lid_neighbours,
           "neighbours in the local intrinsic dimensionality of a client's predictions")
      .range(1, 1000000)
      .source("paper");
  params
      .add("loss", options.loss,
           "loss that sorts the samples: cross-entropy, or with the softmax applied twice")
      .choices({"double_softmax", "ce"})
      .source("released code; the paper has ce");
  params
      .add("kappa", options.kappa, "largest estimated noise of a client that takes part in stage 2")
      .range(0, 1)
      .source("paper");
  params
      .add("score_view", options.score_view,
           "images in passes that score or relabel: augmented as in training, or as they are")
      .choices({"augmented", "clean"})
      .source("released code; the paper does not say");
}

void declare_correction(Options& options, Params& params) {
  params
      .add("correction", options.correction,
           "relabel samples; false: noise is estimated, no label changes")
      .source("paper");
  params
      .add("theta", options.theta,
           "confidence a prediction needs to replace a label; 1 replaces none")
      .range(0, 1)
      .source("paper, CIFAR; Clothing1M 0.9");
  params.add("confidence_test", options.confidence_test, "how a confidence is compared with theta")
      .choices({">", ">="})
      .source("released code; the paper has >=");
  params
      .add("relabel_ratio", options.relabel_ratio,
           "share of the samples considered noisy that may be relabelled in an iteration of stage "
           "1, largest losses first")
      .range(0, 1)
      .source("paper, CIFAR; Clothing1M 0.8");
  params
      .add("final_set", options.final_set,
           "who relabels after stage 2: clients flagged in the last iteration (code), or those "
           "with estimated noise above kappa (paper)")
      .choices({"code", "paper"})
      .source("released code");
}

}  // namespace

void declare(Options& options, Params& params) {
  declare_schedule(options, params);
  declare_training(options, params);
  declare_detection(options, params);
  declare_correction(options, params);
}

Schedule::Schedule(const Options& options, std::int64_t clients)
    : clients_(clients),
      chunk_(std::max<std::int64_t>(participants(options.stage1_fraction, clients), 1)),
      turns_((clients + chunk_ - 1) / chunk_),
      stage1_(options.iterations * turns_),
      finetune_(options.finetune_rounds),
      usual_(options.usual_rounds) {}

Step Schedule::step(std::int64_t round) const {
  if (round < stage1_) {
    const std::int64_t turn = round % turns_;
    return {1, round / turns_, turn, turn + 1 == turns_};
  }
  if (round < stage1_ + finetune_) {
    return {.stage = 2, .last = round + 1 == stage1_ + finetune_};
  }
  return {.stage = 3, .last = round + 1 == rounds()};
}

std::vector<std::int64_t> Schedule::turn_clients(const Step& step, std::uint64_t seed) const {
  const std::vector<std::int64_t> order =
      Stream(seed, "fedcorr order", step.iteration).permutation(clients_);
  const auto first = order.begin() + step.turn * chunk_;
  return {first, first + std::min(chunk_, clients_ - step.turn * chunk_)};
}

std::map<std::int64_t, double> lid_scores(const std::map<std::int64_t, Trail>& trails) {
  const bool together = std::ranges::all_of(
      trails, [&](const auto& entry) { return entry.second.seen == trails.begin()->second.seen; });
  std::map<std::int64_t, double> scores;
  for (const auto& [client, trail] : trails) {
    scores[client] = together ? trail.sum : trail.sum / static_cast<double>(trail.seen);
  }
  return scores;
}

std::vector<std::int64_t> noisy_clients(const std::map<std::int64_t, double>& scores) {
  std::vector<double> values;
  values.reserve(scores.size());
  for (const auto& [client, score] : scores) {
    values.push_back(score);
  }
  const Mixture mixture = gmm2(values);
  std::vector<std::int64_t> noisy;
  std::size_t place = 0;
  for (const auto& [client, score] : scores) {
    if (mixture.labels[place++] == 1) {
      noisy.push_back(client);
    }
  }
  return noisy;
}

std::vector<std::int64_t> finetune_pool(const std::map<std::int64_t, double>& estimates,
                                        double kappa, std::int64_t least) {
  std::vector<std::int64_t> pool;
  std::vector<std::int64_t> all;
  for (const auto& [client, estimate] : estimates) {
    all.push_back(client);
    if (estimate <= kappa) {
      pool.push_back(client);
    }
  }
  if (!pool.empty()) {
    return pool;
  }
  std::ranges::stable_sort(all, {}, [&](std::int64_t client) { return estimates.at(client); });
  all.resize(std::min(all.size(), static_cast<std::size_t>(least)));
  std::ranges::sort(all);
  return all;
}

std::int64_t fallback_size(double fraction, std::int64_t clients) {
  const double share = fraction * static_cast<double>(clients) - kCountSlack;
  return std::max<std::int64_t>(static_cast<std::int64_t>(std::ceil(share)), 1);
}

std::vector<std::int64_t> final_clients(const std::vector<std::int64_t>& noisy,
                                        const std::map<std::int64_t, double>& estimates,
                                        const Options& options) {
  if (options.final_set == "code") {
    return noisy;
  }
  std::vector<std::int64_t> clients;
  for (const auto& [client, estimate] : estimates) {
    if (estimate > options.kappa) {
      clients.push_back(client);
    }
  }
  return clients;
}

LocalRule stage1_rule(const Options& options, double estimate) {
  const double strength = options.beta * estimate;
  if (options.pull == "norm") {
    return {.proximal = strength, .pull = Pull::norm, .spare_first_batch = true};
  }
  // The paper's equation 5 spares no batch; its factor 2 is for the 1/2 in Pull::square.
  return {.proximal = 2.0 * strength, .pull = Pull::square};
}

at::Tensor sample_losses(const at::Tensor& logits, const at::Tensor& labels,
                         const Options& options) {
  return options.loss == "ce" ? losses(logits, labels) : double_softmax_losses(logits, labels);
}

std::vector<bool> suspects(std::span<const double> losses) {
  const Mixture mixture = gmm2(losses);
  return {mixture.labels.begin(), mixture.labels.end()};
}

double estimate_noise(const std::vector<bool>& suspects) {
  return suspects.empty() ? 0.0
                          : static_cast<double>(std::ranges::count(suspects, true)) /
                                static_cast<double>(suspects.size());
}

std::int64_t relabel_count(std::int64_t samples, double estimate, double ratio) {
  return static_cast<std::int64_t>(
      std::floor(static_cast<double>(samples) * estimate * ratio + kCountSlack));
}

std::vector<std::int64_t> largest(std::span<const double> values, std::int64_t count) {
  std::vector<std::int64_t> places(values.size());
  std::iota(places.begin(), places.end(), std::int64_t{0});
  std::ranges::stable_sort(places, std::ranges::greater(), [&](std::int64_t place) {
    return values[static_cast<std::size_t>(place)];
  });
  places.resize(std::min(places.size(), static_cast<std::size_t>(count)));
  return places;
}

std::int64_t relabel(std::span<std::int64_t> labels, std::span<const std::int64_t> places,
                     const Prediction& prediction, const Options& options) {
  std::int64_t changed = 0;
  for (const std::int64_t place : places) {
    const auto at = static_cast<std::size_t>(place);
    const double confidence = prediction.confidence[at];
    const bool confident =
        options.confidence_test == ">" ? confidence > options.theta : confidence >= options.theta;
    if (confident && labels[at] != prediction.label[at]) {
      labels[at] = prediction.label[at];
      ++changed;
    }
  }
  return changed;
}

}  // namespace winnow::fedcorr
