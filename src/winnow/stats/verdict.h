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
inline constexpr std::size_t kVerdictFeatures = 14;
const std::array<std::string_view, kVerdictFeatures>& verdict_feature_names();
using VerdictFeatures = std::array<double, kVerdictFeatures>;

// By verdict, summing to 1: the multinomial logistic model with the coefficients of
// verdict_table.cpp.
std::array<double, kVerdicts> verdict_probabilities(const VerdictFeatures& features);

// A row for each verdict: its coefficients, then its constant.
using VerdictTable = std::array<std::array<double, kVerdictFeatures + 1>, kVerdicts>;
const VerdictTable& verdict_table();

}  // namespace winnow
