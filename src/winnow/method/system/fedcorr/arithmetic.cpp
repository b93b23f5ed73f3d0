#include "winnow/method/system/fedcorr/arithmetic.h"

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
           "iterations of stage 1, each of which visits every client once; the experiment's "
           "`rounds` is not used")
      .range(1, 1000000)
      .source("paper, CIFAR-10; CIFAR-100 10, Clothing1M 2");
  params
      .add("finetune_rounds", options.finetune_rounds,
           "rounds of stage 2, on clients considered clean; 0 skips stage 2 and its correction; "
           "the experiment's `rounds` is not used")
      .range(0, 1000000)
      .source("paper, CIFAR-10; CIFAR-100 450, Clothing1M 50");
  params
      .add("usual_rounds", options.usual_rounds,
           "rounds of stage 3, on all clients; the experiment's `rounds` is not used")
      .range(0, 1000000)
      .source("paper, CIFAR-10 and CIFAR-100; Clothing1M 50");
  params
      .add("stage1_fraction", options.stage1_fraction,
           "share of the clients in one round of stage 1; 0: one client at a time")
      .range(0, 1)
      .source("paper: 1/clients");
  params
      .add("stage1_draw", options.stage1_draw, {{"once", Draw::once}, {"code", Draw::code}},
           "how clients take turns in stage 1: once: each exactly once in an iteration; code: "
           "drawn with replacement within a round, and a client that is missed counts with LID 0")
      .source("paper; code differs where stage1_fraction is above 1/clients");
}

void declare_training(Options& options, Params& params) {
  params
      .add("beta", options.beta,
           "weight of the proximal term in stage 1, multiplied by the client's estimated noise")
      .at_least(0)
      .source("paper");
  params
      .add("pull", options.pull, {{"norm", Pull::norm}, {"squared", Pull::square}},
           "form of the proximal term of stage 1: the norm of the distance from the received "
           "model, or the norm squared")
      .source("released code; the paper squares");
  params
      .add("mixup", options.mixup,
           "alpha of the Beta(alpha, alpha) distribution of mixup weights; 0 turns mixup off; "
           "replaces train.mixup")
      .at_least(0)
      .source("paper");
  params.add("mixup_stage1_only", options.mixup_stage1_only, "use mixup in stage 1 only")
      .source("released code: false; the paper's text: true");
  params.add("usual_lr", options.usual_lr, "learning rate of stage 3; 0: train.lr")
      .at_least(0)
      .source("here; the paper's Figure 4 has other rates in stage 3");
  params
      .add("usual_lr_decay", options.usual_lr_decay,
           "usual_lr is multiplied by this after every round of stage 3; has no effect without "
           "usual_lr")
      .above(0)
      .range(0, 1)
      .source("here; the paper's Figure 4: 0.998 with FedDyn");
}

void declare_detection(Options& options, Params& params) {
  params
      .add("lid_neighbours", options.lid_neighbours,
           "nearest neighbours that estimate the local intrinsic dimensionality (LID) of a "
           "client's predictions")
      .range(1, 1000000)
      .source("paper");
  params
      .add("loss", options.loss, {{"double_softmax", Loss::double_softmax}, {"ce", Loss::ce}},
           "loss that tells clean samples from noisy ones: cross-entropy (ce), or cross-entropy "
           "with the softmax applied twice")
      .source("released code; the paper has ce");
  params
      .add("kappa", options.kappa,
           "largest estimated noise with which a client takes part in stage 2")
      .range(0, 1)
      .source("paper");
  params
      .add("kappa_test", options.kappa_test, {{"<=", KappaTest::at_most}, {"<", KappaTest::below}},
           "whether a client's estimated noise must be at most kappa (<=) or below it (<)")
      .source("released code and the paper's text; its listing has <");
  params
      .add("score_view", options.score_view,
           {{"augmented", ScoreView::augmented}, {"clean", ScoreView::clean}},
           "images on which samples are scored and relabelled: augmented as in training, or "
           "unchanged (clean)")
      .source("released code; the paper does not say");
}

void declare_correction(Options& options, Params& params) {
  params
      .add("correction", options.correction,
           "correct labels; false: noise is estimated, but no label changes")
      .source("paper");
  params
      .add("theta", options.theta,
           "confidence from which a prediction replaces a label; at 1 no label is replaced")
      .range(0, 1)
      .source("paper, CIFAR; Clothing1M 0.9");
  params
      .add("confidence_test", options.confidence_test,
           {{">", ConfidenceTest::above}, {">=", ConfidenceTest::at_least}},
           "whether the confidence of a prediction must be above theta (>) or at least theta (>=)")
      .source("released code; the paper has >=");
  params
      .add("relabel_ratio", options.relabel_ratio,
           "share of the samples considered noisy that may be relabelled in an iteration of stage "
           "1, largest losses first")
      .range(0, 1)
      .source("paper, CIFAR; Clothing1M 0.8");
  params
      .add("rank", options.rank, {{"local", Rank::local}, {"global", Rank::global}},
           "whose losses rank the samples to relabel: the client's own model after its turn "
           "(local), or the model that relabels (global)")
      .source("released code; global: the paper's Eq. 6");
  params
      .add("candidates", options.candidates,
           {{"all", Candidates::all}, {"noisy", Candidates::noisy}},
           "samples that are ranked for relabelling: all samples of a client, or only those "
           "considered noisy")
      .source("released code; noisy: the paper");
  params
      .add("final_set", options.final_set, {{"code", FinalSet::code}, {"paper", FinalSet::paper}},
           "clients that relabel after stage 2: those flagged in the last iteration (code), or "
           "those whose estimated noise is above kappa (paper)")
      .source("released code");
  params
      .add("final_theta", options.final_theta,
           "confidence from which a prediction replaces a label after stage 2; -1: theta, 0: every "
           "sample is relabelled")
      .range(-1, 1)
      .source("released code and the paper's text: as theta; its listing: 0");
}

bool clean_enough(double estimate, const Options& options) {
  return options.kappa_test == KappaTest::below ? estimate < options.kappa
                                                : estimate <= options.kappa;
}

}  // namespace

void declare(Options& options, Params& params) {
  declare_schedule(options, params);
  declare_training(options, params);
  declare_detection(options, params);
  declare_correction(options, params);
}

Schedule::Schedule(const Options& options, std::int64_t clients)
    : once_(options.stage1_draw == Draw::once),
      clients_(clients),
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
  if (!once_) {
    return drawn_clients(step, seed);
  }
  const std::vector<std::int64_t> order =
      Stream(seed, "fedcorr order", step.iteration).permutation(clients_);
  const auto first = order.begin() + step.turn * chunk_;
  return {first, first + std::min(chunk_, clients_ - step.turn * chunk_)};
}

std::vector<std::int64_t> Schedule::drawn_clients(const Step& step, std::uint64_t seed) const {
  Stream stream(seed, "fedcorr draw", step.iteration);
  std::vector<std::int64_t> left(static_cast<std::size_t>(clients_));
  std::iota(left.begin(), left.end(), std::int64_t{0});
  std::vector<std::int64_t> drawn;
  // A round takes at most `chunk_` clients out, so there is somebody left in the last one.
  for (std::int64_t turn = 0; turn <= step.turn; ++turn) {
    drawn.clear();
    for (std::int64_t i = 0; i < chunk_; ++i) {
      drawn.push_back(left[stream.below(left.size())]);
    }
    std::erase_if(
        left, [&](std::int64_t client) { return std::ranges::find(drawn, client) != drawn.end(); });
  }
  return drawn;
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
                                        const Options& options, std::int64_t least) {
  std::vector<std::int64_t> pool;
  std::vector<std::int64_t> all;
  for (const auto& [client, estimate] : estimates) {
    all.push_back(client);
    if (clean_enough(estimate, options)) {
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
  if (options.final_set == FinalSet::code) {
    return noisy;
  }
  std::vector<std::int64_t> clients;
  for (const auto& [client, estimate] : estimates) {
    if (!clean_enough(estimate, options)) {
      clients.push_back(client);
    }
  }
  return clients;
}

LocalRule stage1_rule(const Options& options, double estimate) {
  const double strength = options.beta * estimate;
  if (options.pull == Pull::norm) {
    return {.proximal = strength, .pull = Pull::norm, .spare_first_batch = true};
  }
  // The paper's equation 5 spares no batch; its factor 2 is for the 1/2 in Pull::square.
  return {.proximal = 2.0 * strength, .pull = Pull::square};
}

at::Tensor sample_losses(const at::Tensor& logits, const at::Tensor& labels,
                         const Options& options) {
  return options.loss == Loss::ce ? losses(logits, labels) : double_softmax_losses(logits, labels);
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

std::vector<std::int64_t> relabel_places(std::span<const double> ranks,
                                         const std::vector<bool>& suspects, std::int64_t count,
                                         const Options& options) {
  if (options.candidates == Candidates::all) {
    return largest(ranks, count);
  }
  std::vector<std::int64_t> places = largest(ranks, std::ssize(ranks));
  std::erase_if(places, [&](std::int64_t at) { return !suspects[static_cast<std::size_t>(at)]; });
  places.resize(std::min(places.size(), static_cast<std::size_t>(count)));
  return places;
}

std::int64_t relabel(std::span<std::int64_t> labels, std::span<const std::int64_t> places,
                     const Prediction& prediction, const Options& options) {
  std::int64_t changed = 0;
  for (const std::int64_t place : places) {
    const auto at = static_cast<std::size_t>(place);
    const double confidence = prediction.confidence[at];
    const bool confident = options.confidence_test == ConfidenceTest::above
                               ? confidence > options.theta
                               : confidence >= options.theta;
    if (confident && labels[at] != prediction.label[at]) {
      labels[at] = prediction.label[at];
      ++changed;
    }
  }
  return changed;
}

}  // namespace winnow::fedcorr
