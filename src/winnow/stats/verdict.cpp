#include "winnow/stats/verdict.h"

#include <algorithm>

#include "winnow/base/math.h"

namespace winnow {
namespace {

constexpr std::array<std::string_view, kVerdicts> kVerdictNames{
    "nothing wrong", "label noise", "input noise", "rare but honest", "hostile"};

constexpr std::array<std::string_view, kVerdictFeatures> kFeatureNames{
    "excess_rate",    "kind_gain",      "systematic",      "mixture_gain",   "image_shift",
    "image_distance", "gradient_shift", "neighbour_shift", "update_cosine",  "update_norm",
    "mix_distance",   "disagreement",   "noise_shift",     "sharpness_shift"};

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  return kVerdictNames[static_cast<std::size_t>(verdict)];
}

const std::array<std::string_view, kVerdictFeatures>& verdict_feature_names() {
  return kFeatureNames;
}

std::array<double, kVerdicts> verdict_probabilities(const VerdictFeatures& features) {
  std::array<double, kVerdicts> values{};
  for (std::size_t v = 0; v < kVerdicts; ++v) {
    const auto& row = verdict_table()[v];
    values[v] = row[kVerdictFeatures];
    for (std::size_t f = 0; f < kVerdictFeatures; ++f) {
      values[v] += row[f] * features[f];
    }
  }
  const double most = std::ranges::max(values);
  double sum = 0.0;
  for (double& value : values) {
    value = math::exp(value - most);
    sum += value;
  }
  std::ranges::for_each(values, [sum](double& value) { value /= sum; });
  return values;
}

}  // namespace winnow
