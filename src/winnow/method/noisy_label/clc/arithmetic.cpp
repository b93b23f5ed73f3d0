#include "winnow/method/noisy_label/clc/arithmetic.h"

#include <algorithm>

namespace winnow::clc {

void declare(Options& options, Params& params) {
  params
      .add("start_rounds", options.start_rounds,
           "rounds of FedAvg before any sample is held out; the experiment's `rounds` is not used")
      .range(0, 1000000)
      .source("spec: baselines 20");
  params
      .add("holdout_rounds", options.holdout_rounds,
           "rounds in which clients train on the samples they keep; the experiment's `rounds` is "
           "not used")
      .range(0, 1000000)
      .source("released code");
  params
      .add("correction_rounds", options.correction_rounds,
           "rounds of FedAvg after the labels are corrected; 0 skips the correction; the "
           "experiment's `rounds` is not used")
      .range(0, 1000000)
      .source("released code");
  params
      .add("tau", options.tau,
           "margin by which the most probable class must beat the given label for a sample to be "
           "held out; at 1 none is")
      .range(0, 1)
      .source("released code");
  params
      .add("relabel", options.relabel, {{"all", Relabel::all}, {"held_out", Relabel::held_out}},
           "samples whose labels are corrected: all, or those held out")
      .source("released code: all samples");
}

Stage stage_of(const Options& options, std::int64_t round) {
  if (round < options.start_rounds) {
    return Stage::start;
  }
  return round < options.start_rounds + options.holdout_rounds ? Stage::hold_out
                                                               : Stage::correction;
}

bool corrects(const Options& options, std::int64_t round) {
  return round == options.start_rounds + options.holdout_rounds;
}

ClassConfidence class_confidence(std::span<const double> probabilities,
                                 std::span<const std::int64_t> labels, std::size_t classes) {
  ClassConfidence own{std::vector<double>(classes, 0.0), std::vector<double>(classes, 0.0)};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(labels[i]);
    own.mean[label] += probabilities[i * classes + label];
    ++own.count[label];
  }
  for (std::size_t c = 0; c < classes; ++c) {
    own.mean[c] = own.count[c] > 0.0 ? own.mean[c] / own.count[c] : 0.0;
  }
  return own;
}

void Consensus::add(const ClassConfidence& client) {
  for (std::size_t c = 0; c < sum_.size(); ++c) {
    sum_[c] += client.count[c] * client.mean[c];
    count_[c] += client.count[c];
  }
}

std::vector<double> Consensus::confidence() const {
  std::vector<double> confidence;
  confidence.reserve(sum_.size());
  for (std::size_t c = 0; c < sum_.size(); ++c) {
    confidence.push_back(count_[c] > 0.0 ? sum_[c] / count_[c] : 1.0);
  }
  return confidence;
}

Verdict judge(std::span<const double> probabilities, std::int64_t given,
              std::span<const double> confidence, double tau) {
  const auto largest = std::ranges::max_element(probabilities) - probabilities.begin();
  std::int64_t confident = -1;
  for (std::size_t c = 0; c < probabilities.size(); ++c) {
    if (probabilities[c] > confidence[c] &&
        (confident < 0 || probabilities[c] > probabilities[static_cast<std::size_t>(confident)])) {
      confident = static_cast<std::int64_t>(c);
    }
  }
  if (confident < 0) {
    return {largest, false};
  }
  const double margin = probabilities[static_cast<std::size_t>(largest)] -
                        probabilities[static_cast<std::size_t>(given)];
  return {confident, confident != given && margin > tau};
}

std::vector<Verdict> judge_all(std::span<const double> probabilities,
                               std::span<const std::int64_t> labels,
                               std::span<const double> confidence, double tau) {
  const std::size_t classes = confidence.size();
  std::vector<Verdict> verdicts;
  verdicts.reserve(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    verdicts.push_back(
        judge(probabilities.subspan(i * classes, classes), labels[i], confidence, tau));
  }
  return verdicts;
}

std::int64_t relabel(std::span<std::int64_t> labels, std::span<const Verdict> verdicts,
                     bool held_out_only) {
  std::int64_t changed = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if ((verdicts[i].held_out || !held_out_only) && labels[i] != verdicts[i].label) {
      labels[i] = verdicts[i].label;
      ++changed;
    }
  }
  return changed;
}

}  // namespace winnow::clc
