// How well one number per item agrees with another number or with the truth.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace winnow {

// Pearson correlation of paired values, in [-1, 1]. Empty when it is not defined: fewer than 2
// pairs or one side constant. Sides of different length or values that are not finite are an
// internal error.
std::optional<double> pearson(std::span<const double> x, std::span<const double> y);

// Area under the ROC curve of `scores` as a detector of the positive items: the probability that a
// positive item scores higher than a negative one, ties counting half. Empty when there is no
// positive or no negative item. Errors as in pearson().
std::optional<double> roc_area(std::span<const double> scores, const std::vector<bool>& positive);

}  // namespace winnow
