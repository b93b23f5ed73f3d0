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
  const auto constant = [](std::size_t v) { return verdict_table()[v][kVerdictFeatures]; };
  for (std::size_t v = 1; v < kVerdicts; ++v) {
    EXPECT_NEAR(std::log(p[v] / p[0]), constant(v) - constant(0), 1e-9);
  }
  EXPECT_EQ(std::ranges::max_element(p), p.begin()) << "nothing wrong";
}

// spec: audit 5
TEST(Verdict, AFeatureShiftsTheOddsByItsCoefficients) {
  const std::array<double, kVerdicts> before = verdict_probabilities({});
  for (std::size_t f = 0; f < kVerdictFeatures; ++f) {
    VerdictFeatures features{};
    features[f] = 0.7;
    const std::array<double, kVerdicts> p = verdict_probabilities(features);
    EXPECT_NEAR(sum_of(p), 1.0, 1e-12);
    for (std::size_t v = 1; v < kVerdicts; ++v) {
      const double shift = 0.7 * (verdict_table()[v][f] - verdict_table()[0][f]);
      EXPECT_NEAR(std::log(p[v] / p[0]) - std::log(before[v] / before[0]), shift, 1e-9)
          << verdict_feature_names()[f] << ", " << verdict_name(static_cast<Verdict>(v));
    }
  }
}

// What a feature is about is what it speaks for.
TEST(Verdict, EvidenceSpeaksForTheVerdictItIsAbout) {
  const auto most = [](std::string_view name, double value) {
    VerdictFeatures features{};
    features[feature(name)] = value;
    const auto p = verdict_probabilities(features);
    return verdict_name(
        static_cast<Verdict>(std::distance(p.begin(), std::ranges::max_element(p))));
  };
  EXPECT_EQ(most("kind_gain", 2.0), "label noise");
  EXPECT_EQ(most("image_shift", 1.0), "input noise");
  EXPECT_EQ(most("mix_distance", 0.6), "rare but honest");
  EXPECT_EQ(most("systematic", 1.0), "hostile");
  EXPECT_EQ(most("gradient_shift", 5.0), "nothing wrong") << "it has no coefficient";
}

TEST(Verdict, LargeFeaturesAreCertainAndStayNumbers) {
  for (const double size : {1e3, 1e6, 1e300}) {
    VerdictFeatures features{};
    features[feature("image_shift")] = size;
    const std::array<double, kVerdicts> p = verdict_probabilities(features);
    EXPECT_DOUBLE_EQ(p[verdict_place(Verdict::input_noise)], 1.0);
    features[feature("image_shift")] = -size;
    const std::array<double, kVerdicts> other = verdict_probabilities(features);
    EXPECT_DOUBLE_EQ(other[verdict_place(Verdict::input_noise)], 0.0);
    EXPECT_NEAR(sum_of(other), 1.0, 1e-12);
  }
}

}  // namespace winnow
