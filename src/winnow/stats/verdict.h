// The one word for a client, with its probability (spec: audit 5).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace winnow {

enum class Verdict { nothing_wrong, label_noise, input_noise, rare_but_honest, hostile };
inline constexpr std::size_t kVerdicts = 5;
std::string_view verdict_name(Verdict verdict);  // "nothing wrong", "label noise", ...

// What is known of a client, in numbers of about one; features are named for audit.json and for who
// calibrates.
inline constexpr std::size_t kVerdictFeatures = 15;
const std::array<std::string_view, kVerdictFeatures>& verdict_feature_names();
using VerdictFeatures = std::array<double, kVerdictFeatures>;

// By verdict, summing to 1: a multinomial logistic model of honest clients and the three kinds of
// noisy ones, with the coefficients of verdict_table.cpp. The row of "rare but honest" has the
// log-odds by which honest clients are divided, so that a rare mix of classes says nothing about
// noise.
std::array<double, kVerdicts> verdict_probabilities(const VerdictFeatures& features);

// Noisy or honest first, and then which of these.
Verdict likeliest_verdict(const std::array<double, kVerdicts>& probabilities);

// A row for each verdict: its coefficients, then its constant.
using VerdictTable = std::array<std::array<double, kVerdictFeatures + 1>, kVerdicts>;
const VerdictTable& verdict_table();

}  // namespace winnow
