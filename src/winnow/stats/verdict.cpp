#include "winnow/stats/verdict.h"

#include <algorithm>

#include "winnow/base/math.h"

namespace winnow {
namespace {

constexpr auto kHonest = static_cast<std::size_t>(Verdict::nothing_wrong);
constexpr auto kRare = static_cast<std::size_t>(Verdict::rare_but_honest);
constexpr double kMostLogOdds = 700.0;  // beyond it e has no number

constexpr std::array<std::string_view, kVerdicts> kVerdictNames{
    "nothing wrong", "label noise", "input noise", "rare but honest", "hostile"};

constexpr std::array<std::string_view, kVerdictFeatures> kFeatureNames{
    "expected_rate",  "kind_gain",      "systematic",      "mixture_gain",  "image_shift",
    "image_distance", "gradient_shift", "neighbour_shift", "update_cosine", "update_norm",
    "mix_distance",   "disagreement",   "noise_shift",     "blur",          "image_spread"};

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  return kVerdictNames[static_cast<std::size_t>(verdict)];
}

const std::array<std::string_view, kVerdictFeatures>& verdict_feature_names() {
  return kFeatureNames;
}

// spec: audit 5
std::array<double, kVerdicts> verdict_probabilities(const VerdictFeatures& features) {
  std::array<double, kVerdicts> values{};
  for (std::size_t v = 0; v < kVerdicts; ++v) {
    const auto& row = verdict_table()[v];
    values[v] = row[kVerdictFeatures];
    for (std::size_t f = 0; f < kVerdictFeatures; ++f) {
      values[v] += row[f] * features[f];
    }
  }
  const double rarity = std::clamp(values[kRare], -kMostLogOdds, kMostLogOdds);
  const double rare = 1.0 / (1.0 + math::exp(-rarity));
  values[kRare] = values[kHonest];
  const double most = std::ranges::max(values);
  double sum = 0.0;
  for (std::size_t v = 0; v < kVerdicts; ++v) {
    values[v] = math::exp(values[v] - most);
    sum += v == kRare ? 0.0 : values[v];
  }
  values[kRare] *= rare;
  values[kHonest] *= 1.0 - rare;
  std::ranges::for_each(values, [sum](double& value) { value /= sum; });
  return values;
}

Verdict likeliest_verdict(const std::array<double, kVerdicts>& probabilities) {
  std::array<double, kVerdicts> decided = probabilities;
  decided[kHonest] += decided[kRare];
  decided[kRare] = -1.0;
  const auto best = static_cast<std::size_t>(std::ranges::max_element(decided) - decided.begin());
  const bool rare = best == kHonest && probabilities[kRare] > probabilities[kHonest];
  return static_cast<Verdict>(rare ? kRare : best);
}

}  // namespace winnow
