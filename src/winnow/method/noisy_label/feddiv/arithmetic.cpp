#include "winnow/method/noisy_label/feddiv/arithmetic.h"

#include <algorithm>
#include <cmath>

#include "winnow/base/math.h"

namespace winnow::feddiv {
namespace {

constexpr double kClean = 0.5;            // probability from which a sample is clean
constexpr double kSmallestPrior = 1e-12;  // keeps its logarithm finite

std::vector<double> adjusted(std::span<const double> row, std::span<const double> prior,
                             double xi) {
  std::vector<double> values;
  values.reserve(row.size());
  for (std::size_t c = 0; c < row.size(); ++c) {
    values.push_back(row[c] - xi * math::log(std::max(prior[c], kSmallestPrior)));
  }
  return values;
}

std::vector<double> softmax_of(std::span<const double> row) {
  const double largest = *std::ranges::max_element(row);
  std::vector<double> values;
  double sum = 0.0;
  for (const double value : row) {
    values.push_back(math::exp(value - largest));
    sum += values.back();
  }
  for (double& value : values) {
    value /= sum;
  }
  return values;
}

}  // namespace

void declare(Options& options, Params& params) {
  params
      .add("warmup", options.warmup,
           "passes over all clients at the start, without a filter; the experiment's `rounds` is "
           "not used")
      .range(0, 1000000)
      .source("paper, CIFAR-10; CIFAR-100 10");
  params
      .add("warmup_fraction", options.warmup_fraction,
           "share of the clients in one round of the warm-up; 0: one client at a time")
      .range(0, 1)
      .source("released code, as FedCorr's stage 1");
  params
      .add("usual_rounds", options.usual_rounds,
           "rounds after the warm-up; the experiment's `rounds` is not used")
      .range(0, 1000000)
      .source("paper, CIFAR-10; CIFAR-100 900");
  params
      .add(
          "filter", options.filter,
          {{"federated", FilterOf::all_clients}, {"local", FilterOf::own}},
          "what tells clean samples from noisy ones: the mean of all clients' filters, or one that "
          "a client fits to its own losses (the paper's ablation)")
      .source("paper");
  params
      .add("relabel", options.relabel,
           "give noisy samples the predicted label if the prediction is confident; false: leave "
           "them out")
      .source("paper");
  params
      .add("sampler", options.sampler,
           "keep only samples on whose class the received model and the client's own agree")
      .source("paper");
  params.add("zeta", options.zeta, "confidence from which a noisy sample takes the predicted label")
      .range(0, 1)
      .source("paper");
  params
      .add("xi", options.xi,
           "how strongly a client's own class prior is removed from its own model's predictions; "
           "0: not at all")
      .at_least(0)
      .source("paper; the code swaps xi and m");
  params.add("m", options.m, "momentum of a client's own class prior")
      .range(0, 1)
      .source("paper; the code swaps xi and m");
  params
      .add("eta", options.eta,
           "weight of the term that keeps the mean prediction of a batch near uniform")
      .at_least(0)
      .source("paper: 1 without IID data, otherwise 0");
  params
      .add("mixup", options.mixup,
           "alpha of the Beta(alpha, alpha) distribution of mixup weights; 0 turns mixup off; "
           "replaces train.mixup")
      .at_least(0)
      .source("paper");
  params
      .add("clean_below", options.clean_below,
           "share of noisy samples below which a client trains on all its samples as they are")
      .range(0, 1)
      .source("released code");
  params
      .add("relabel_above", options.relabel_above,
           "share of noisy samples above which a client relabels")
      .range(0, 1)
      .source("released code; the paper has no such limit");
  params
      .add("wait", options.wait,
           "participations after the warm-up before a client relabels or samples by agreement")
      .at_least(0)
      .source("released code; the paper has no such limit");
  params
      .add("literal_code", options.literal_code,
           "average variances with squared weights, swap xi and m, and update the prior from "
           "confident samples only, as the released code does")
      .source("spec: rivals 1; paper: false");
}

std::vector<double> values_of(const Filter& filter) {
  return {filter.means[0],     filter.means[1],   filter.variances[0],
          filter.variances[1], filter.weights[0], filter.weights[1]};
}

std::optional<Filter> filter_of(std::span<const double> values) {
  if (values.size() != 6 ||
      !std::ranges::all_of(values, [](double value) { return std::isfinite(value); })) {
    return std::nullopt;
  }
  const bool sound = values[2] > 0.0 && values[3] > 0.0 && values[4] >= 0.0 && values[5] >= 0.0 &&
                     std::abs(values[4] + values[5] - 1.0) < 1e-6;
  if (!sound) {
    return std::nullopt;
  }
  return Filter{{values[0], values[1]}, {values[2], values[3]}, {values[4], values[5]}};
}

// spec: rivals 1.5
Filter mean_filter(const ByClient<Contribution>& clients, bool literal) {
  double all = 0.0;
  for (const auto& [client, own] : clients) {
    all += own.samples;
  }
  Filter mean;
  for (const auto& [client, own] : clients) {
    const double share = own.samples / all;
    for (std::size_t g = 0; g < 2; ++g) {
      mean.means[g] += share * own.filter.means[g];
      mean.variances[g] += (literal ? share * share : share) * own.filter.variances[g];
      mean.weights[g] += share * own.filter.weights[g];
    }
  }
  return mean;
}

// spec: rivals 1.2, 1.3
Chosen choose(std::span<const double> clean, std::span<const std::int64_t> given,
              const Prediction& prediction, std::span<const std::int64_t> local,
              std::int64_t before, const Options& options) {
  const std::size_t samples = given.size();
  Chosen chosen{.suspected = std::vector<bool>(samples, false),
                .used = std::vector<bool>(samples, true),
                .label = {given.begin(), given.end()}};
  std::int64_t noisy = 0;
  for (std::size_t i = 0; i < samples; ++i) {
    chosen.suspected[i] = clean[i] < kClean;
    noisy += chosen.suspected[i] ? 1 : 0;
  }
  chosen.noisy = samples == 0 ? 0.0 : static_cast<double>(noisy) / static_cast<double>(samples);
  if (chosen.noisy < options.clean_below) {
    return chosen;
  }
  const bool ripe = before >= options.wait;
  const bool sampled = options.sampler && ripe && !local.empty();
  const bool relabels = options.relabel && ripe && chosen.noisy > options.relabel_above;
  for (std::size_t i = 0; i < samples; ++i) {
    const bool agreed = !sampled || prediction.label[i] == local[i];
    if (!chosen.suspected[i]) {
      chosen.used[i] = agreed;
      continue;
    }
    const bool sure = static_cast<double>(prediction.confidence[i]) >= options.zeta;
    chosen.used[i] = relabels && sure && agreed;
    if (chosen.used[i]) {
      chosen.label[i] = prediction.label[i];
    }
  }
  return chosen;
}

std::vector<std::int64_t> local_classes(std::span<const double> logits,
                                        std::span<const double> prior, double xi) {
  std::vector<std::int64_t> classes;
  for (std::size_t start = 0; start < logits.size(); start += prior.size()) {
    const std::vector<double> row = adjusted(logits.subspan(start, prior.size()), prior, xi);
    classes.push_back(std::ranges::max_element(row) - row.begin());
  }
  return classes;
}

std::vector<double> next_prior(std::span<const double> logits, std::span<const double> prior,
                               const Options& options) {
  std::vector<double> sum(prior.size(), 0.0);
  double count = 0.0;
  for (std::size_t start = 0; start < logits.size(); start += prior.size()) {
    const std::span<const double> row = logits.subspan(start, prior.size());
    const std::vector<double> seen = softmax_of(adjusted(row, prior, options.prior_weight()));
    if (*std::ranges::max_element(seen) <= options.prior_confidence()) {
      continue;
    }
    const std::vector<double> plain = softmax_of(row);
    for (std::size_t c = 0; c < sum.size(); ++c) {
      sum[c] += plain[c];
    }
    count += 1.0;
  }
  std::vector<double> next(prior.begin(), prior.end());
  if (count > 0.0) {
    const double kept = options.prior_momentum();
    for (std::size_t c = 0; c < next.size(); ++c) {
      next[c] = kept * next[c] + (1.0 - kept) * sum[c] / count;
    }
  }
  return next;
}

}  // namespace winnow::feddiv
