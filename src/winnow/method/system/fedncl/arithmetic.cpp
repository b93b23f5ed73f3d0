#include "winnow/method/system/fedncl/arithmetic.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/federation/aggregation.h"

namespace winnow::fedncl {
namespace {

double sum(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::vector<double> shares(std::span<const double> values) {
  const double total = sum(values);
  std::vector<double> shares(values.size());
  std::ranges::transform(values, shares.begin(), [total](double value) { return value / total; });
  return shares;
}

std::vector<double> equal_weights(std::size_t count) {
  return std::vector<double>(count, 1.0 / static_cast<double>(count));
}

std::vector<double> entry_weights(const Participants& participants, std::size_t entry,
                                  double penalty) {
  std::vector<double> penalised;
  penalised.reserve(participants.divergences.size());
  for (std::size_t client = 0; client < participants.divergences.size(); ++client) {
    const double divergence = participants.divergences[client][entry];
    penalised.push_back(participants.flagged[client] ? divergence * penalty : divergence);
  }
  return inverse_weights(penalised);
}

// "fc1" of "fc1.weight".
std::string_view layer_of(const Slot& slot) {
  const std::string_view name = slot.name;
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(0, dot);
}

}  // namespace

std::vector<double> divergences(const State& global, const State& model, bool with_counters) {
  require_same_layout(*global.layout, *model.layout);
  const at::Tensor moved =
      global.flat.to(at::kDouble).sub_(model.flat.to(global.flat.device()).to(at::kDouble));
  std::vector<at::Tensor> norms;
  for (const Slot& slot : global.layout->slots()) {
    if (slot.kind != SlotKind::counter || with_counters) {
      norms.push_back(moved.narrow(0, slot.offset, slot.size).norm());
    }
  }
  if (norms.empty()) {
    return {};
  }
  const at::Tensor host = at::stack(norms).add_(1.0).cpu();
  return {host.data_ptr<double>(), host.data_ptr<double>() + host.numel()};
}

double reliability(ReliabilityRule rule, std::span<const double> divergences, double loss,
                   double samples) {
  switch (rule) {
    case ReliabilityRule::product_mean:
      return sum(divergences) * loss;
    case ReliabilityRule::code_literal:
      return sum(divergences) * loss / samples;
    case ReliabilityRule::only_ce:
      return loss / samples;
    case ReliabilityRule::only_div:
      return sum(divergences) / samples;
  }
  throw Error(ErrorKind::internal, "unknown rule of the reliability score");
}

std::vector<double> z_scores(std::span<const double> scores) {
  std::vector<double> z(scores.size(), 0.0);
  // Equal scores are found by comparing them: the rounded mean may differ from all of them.
  if (scores.size() < 3 || std::ranges::min(scores) == std::ranges::max(scores)) {
    return z;
  }
  const auto count = static_cast<double>(scores.size());
  const double mean = sum(scores) / count;
  double squares = 0.0;
  for (const double score : scores) {
    squares += (score - mean) * (score - mean);
  }
  const double deviation = std::sqrt(squares / (count - 1.0));
  if (!(deviation > 0.0)) {
    return z;
  }
  std::ranges::transform(scores, z.begin(),
                         [&](double score) { return (score - mean) / deviation; });
  return z;
}

std::vector<bool> flag(std::span<const double> scores, double beta, bool two_sided) {
  std::vector<bool> flagged;
  flagged.reserve(scores.size());
  for (const double z : z_scores(scores)) {
    flagged.push_back((two_sided ? std::abs(z) : z) > beta);
  }
  return flagged;
}

double penalty(std::int64_t round, std::int64_t penalty_rounds, double early, double late) {
  return round > penalty_rounds ? late
                                : std::clamp(static_cast<double>(round) / early, early, late);
}

std::vector<double> inverse_weights(std::span<const double> values) {
  const bool has_zero = std::ranges::count(values, 0.0) > 0;
  const auto inverse = [has_zero](double value) {
    if (has_zero) {
      return value == 0.0 ? 1.0 : 0.0;
    }
    return 1.0 / value;
  };
  std::vector<double> weights(values.size());
  std::ranges::transform(values, weights.begin(), inverse);
  const double total = sum(weights);
  std::ranges::for_each(weights, [total](double& weight) { weight /= total; });
  return weights;
}

std::vector<bool> classifier_slots(const Layout& layout) {
  const std::vector<Slot>& slots = layout.slots();
  std::vector<bool> classifier(slots.size(), false);
  auto end = static_cast<std::size_t>(
      std::ranges::count(slots, SlotKind::parameter, &Slot::kind));  // they come first
  while (end > 0) {
    const std::string_view layer = layer_of(slots[end - 1]);
    std::size_t begin = end;
    bool linear = false;
    while (begin > 0 && layer_of(slots[begin - 1]) == layer) {
      --begin;
      linear = linear || slots[begin].shape.size() == 2;
    }
    if (!linear) {
      break;
    }
    std::fill(classifier.begin() + static_cast<std::ptrdiff_t>(begin),
              classifier.begin() + static_cast<std::ptrdiff_t>(end), true);
    end = begin;
  }
  return classifier;
}

std::vector<std::vector<double>> slot_weights(WeightRule rule, const Layout& layout,
                                              const Participants& participants, double penalty) {
  const std::size_t clients = participants.scores.size();
  const std::size_t slots = layout.slots().size();
  const std::size_t entries = participants.divergences.front().size();
  std::vector<std::vector<double>> weights(slots, equal_weights(clients));
  const std::vector<bool> classifier = classifier_slots(layout);
  for (std::size_t entry = 0; entry < entries; ++entry) {
    if (rule == WeightRule::whole_model) {
      weights[entry] = inverse_weights(participants.scores);
    } else if (rule == WeightRule::samples) {
      weights[entry] = shares(participants.samples);
    } else if (rule == WeightRule::layerwise ||
               (rule == WeightRule::classifier_only && classifier[entry])) {
      weights[entry] = entry_weights(participants, entry, penalty);
    }
  }
  return weights;
}

State combine(std::span<const State> models, const std::vector<std::vector<double>>& weights) {
  const State& first = models.front();
  const at::Tensor total = at::zeros_like(first.flat, at::kDouble);
  for (std::size_t client = 0; client < models.size(); ++client) {
    require_same_layout(*first.layout, *models[client].layout);
    const at::Tensor values = models[client].flat.to(first.flat.device()).to(at::kDouble);
    const std::vector<Slot>& slots = first.layout->slots();
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      const auto [offset, size] = std::pair(slots[slot].offset, slots[slot].size);
      total.narrow(0, offset, size).add_(values.narrow(0, offset, size), weights[slot][client]);
    }
  }
  State mean{first.layout, total.to(at::kFloat)};
  mean.counters().round_();
  return mean;
}

at::Tensor confident_labels(const at::Tensor& probabilities, const at::Tensor& given,
                            double confidence) {
  const auto [largest, predicted] = probabilities.max(1);
  return at::where(largest.ge(confidence), predicted, given);
}

}  // namespace winnow::fedncl
