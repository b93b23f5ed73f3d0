#include "winnow/stats/verdict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

namespace winnow {
namespace {

std::size_t verdict_place(Verdict verdict) {
  return static_cast<std::size_t>(verdict);
}

std::size_t feature(std::string_view name) {
  const auto& names = verdict_feature_names();
  const auto* const found = std::ranges::find(names, name);
  EXPECT_NE(found, names.end()) << name;
  return static_cast<std::size_t>(std::distance(names.begin(), found));
}

double sum_of(const std::array<double, kVerdicts>& p) {
  return std::accumulate(p.begin(), p.end(), 0.0);
}

}  // namespace

// Without any evidence only the constants speak: the odds of two verdicts are e to their
// difference.
TEST(Verdict, ThatOfNoEvidenceIsTheTablesConstants) {
  const std::array<double, kVerdicts> p = verdict_probabilities({});
  EXPECT_NEAR(sum_of(p), 1.0, 1e-12);
  const auto constant = [](Verdict v) {
    return verdict_table()[verdict_place(v)][kVerdictFeatures];
  };
  const double honest =
      p[verdict_place(Verdict::nothing_wrong)] + p[verdict_place(Verdict::rare_but_honest)];
  for (const Verdict noisy : {Verdict::label_noise, Verdict::input_noise, Verdict::hostile}) {
    EXPECT_NEAR(std::log(p[verdict_place(noisy)] / honest),
                constant(noisy) - constant(Verdict::nothing_wrong), 1e-9);
  }
  EXPECT_EQ(likeliest_verdict(p), Verdict::nothing_wrong);
}

// spec: audit 5
TEST(Verdict, AFeatureShiftsTheOddsByItsCoefficients) {
  const auto odds = [](const std::array<double, kVerdicts>& p) {
    const double honest = p[0] + p[verdict_place(Verdict::rare_but_honest)];
    std::array<double, kVerdicts> values{};
    for (std::size_t v = 1; v < kVerdicts; ++v) {
      // Rarity divides the honest.
      const bool rare = v == verdict_place(Verdict::rare_but_honest);
      values[v] = std::log(p[v] / (rare ? p[0] : honest));
    }
    return values;
  };
  const auto before = odds(verdict_probabilities({}));
  for (std::size_t f = 0; f < kVerdictFeatures; ++f) {
    VerdictFeatures features{};
    features[f] = 0.7;
    const auto p = verdict_probabilities(features);
    EXPECT_NEAR(sum_of(p), 1.0, 1e-12);
    for (std::size_t v = 1; v < kVerdicts; ++v) {
      const double shift = 0.7 * (verdict_table()[v][f] - verdict_table()[0][f]);
      EXPECT_NEAR(odds(p)[v] - before[v], shift, 1e-8)
          << verdict_feature_names()[f] << ", " << verdict_name(static_cast<Verdict>(v));
    }
  }
}

// A client that holds few classes is noisy as often as one that holds all.
TEST(Verdict, ARareMixOfClassesSaysNothingAboutNoise) {
  VerdictFeatures features{};
  features[feature("expected_rate")] = 0.3;
  const auto common = verdict_probabilities(features);
  features[feature("mix_distance")] = 0.7;
  const auto rare = verdict_probabilities(features);
  for (const Verdict noisy : {Verdict::label_noise, Verdict::input_noise, Verdict::hostile}) {
    EXPECT_NEAR(common[verdict_place(noisy)], rare[verdict_place(noisy)], 1e-12);
  }
  EXPECT_GT(rare[verdict_place(Verdict::rare_but_honest)],
            common[verdict_place(Verdict::rare_but_honest)]);
}

TEST(Verdict, NoisyOrHonestIsDecidedFirst) {
  EXPECT_EQ(likeliest_verdict({0.25, 0.4, 0.0, 0.35, 0.0}), Verdict::rare_but_honest);
  EXPECT_EQ(likeliest_verdict({0.35, 0.4, 0.0, 0.25, 0.0}), Verdict::nothing_wrong);
  EXPECT_EQ(likeliest_verdict({0.2, 0.45, 0.0, 0.2, 0.15}), Verdict::label_noise);
  EXPECT_EQ(likeliest_verdict({0.0, 0.0, 0.2, 0.1, 0.7}), Verdict::hostile);
}

// What a feature is about is what it speaks for.
TEST(Verdict, EvidenceSpeaksForTheVerdictItIsAbout) {
  const auto most = [](std::string_view name, double value) {
    VerdictFeatures features{};
    features[feature(name)] = value;
    return verdict_name(likeliest_verdict(verdict_probabilities(features)));
  };
  EXPECT_EQ(most("kind_gain", 2.0), "label noise");
  EXPECT_EQ(most("blur", 1.0), "input noise");
  EXPECT_EQ(most("mix_distance", 0.6), "rare but honest");
  EXPECT_EQ(most("systematic", 1.0), "hostile");
  EXPECT_EQ(most("gradient_shift", 5.0), "nothing wrong") << "it has no coefficient";
}

TEST(Verdict, LargeFeaturesAreCertainAndStayNumbers) {
  for (const double size : {1e3, 1e6, 1e300}) {
    VerdictFeatures features{};
    features[feature("blur")] = size;
    const std::array<double, kVerdicts> p = verdict_probabilities(features);
    EXPECT_DOUBLE_EQ(p[verdict_place(Verdict::input_noise)], 1.0);
    features[feature("blur")] = -size;
    const std::array<double, kVerdicts> other = verdict_probabilities(features);
    EXPECT_DOUBLE_EQ(other[verdict_place(Verdict::input_noise)], 0.0);
    EXPECT_NEAR(sum_of(other), 1.0, 1e-12);
  }
}

}  // namespace winnow
