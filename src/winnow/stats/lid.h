// Local intrinsic dimensionality of the predictions of a model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

// The LID of every row among all rows, from its k nearest other rows at Euclidean distances
// v_1 <= .. <= v_k:  -k / (sum_j ln(v_j / (v_k + 1e-6)) + 1e-6)  (spec: label-noise A.3).
// `points` holds rows of `dims` values. With fewer than k other rows the sum is shorter and the
// numerator stays k. Nothing is clamped: a row with an identical other row has LID 0, and a row
// whose neighbours are all equally far has a huge one (negative when they are further away than
// about their number). Needs at least 2 rows, dims >= 1, k >= 1 and finite values (internal error
// otherwise).
std::vector<double> lid(std::span<const float> points, std::size_t dims, std::size_t k);

// The mean of lid() over the rows; the same contract.
double mean_lid(std::span<const float> points, std::size_t dims, std::size_t k);

// The same of a float32 [rows, dims], computed where the tensor lies, in blocks of rows; equal up
// to rounding in float64.
double mean_lid(const at::Tensor& points, std::int64_t k);

}  // namespace winnow
