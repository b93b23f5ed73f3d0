#include "winnow/stats/lid.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/math.h"
#include "winnow/stats/checks.h"

namespace winnow {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr std::int64_t kDistancesAtOnce = 1 << 24;

void check_input(std::span<const float> points, std::size_t dims, std::size_t k) {
  if (dims == 0 || k == 0 || points.size() % dims != 0) {
    throw Error(ErrorKind::internal,
                fmt::format("lid: {} values, dims {}, k {}, expected whole rows and dims, k >= 1",
                            points.size(), dims, k));
  }
  if (points.size() / dims < 2) {
    throw Error(ErrorKind::internal,
                fmt::format("lid: {} rows, expected at least 2", points.size() / dims));
  }
  require_finite(points, "lid");
}

// One column after the other, so that the distances of a row to all others are plain vector loops.
std::vector<double> columns_of(std::span<const float> points, std::size_t dims) {
  const std::size_t rows = points.size() / dims;
  std::vector<double> columns(points.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t d = 0; d < dims; ++d) {
      columns[d * rows + i] = static_cast<double>(points[i * dims + d]);
    }
  }
  return columns;
}

// Squared distances from `row` to all rows, itself included.
void squared_distances(std::span<const double> columns, std::size_t row,
                       std::vector<double>& squares) {
  const std::size_t rows = squares.size();
  std::ranges::fill(squares, 0.0);
  for (std::size_t start = 0; start < columns.size(); start += rows) {
    const double* column = columns.data() + start;
    const double own = column[row];
    for (std::size_t j = 0; j < rows; ++j) {
      const double difference = column[j] - own;
      squares[j] += difference * difference;
    }
  }
}

// From the squared distances to the nearest rows, ascending.
double lid_of_row(std::span<const double> nearest, std::size_t k) {
  if (nearest.front() == 0.0) {
    return 0.0;  // ln 0 = -inf in the sum
  }
  const double radius = std::sqrt(nearest.back()) + kEpsilon;
  double twice = 0.0;  // logarithms of squares
  for (const double square : nearest) {
    twice += math::log(square / (radius * radius));
  }
  return -static_cast<double>(k) / (0.5 * twice + kEpsilon);
}

}  // namespace

std::vector<double> lid(std::span<const float> points, std::size_t dims, std::size_t k) {
  check_input(points, dims, k);
  const std::size_t rows = points.size() / dims;
  const std::size_t kept = std::min(k, rows - 1);
  const std::vector<double> columns = columns_of(points, dims);
  std::vector<double> squares(rows);
  std::vector<double> result(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    squared_distances(columns, i, squares);
    std::swap(squares[i], squares.back());  // the row itself stays out
    // Few of many: a heap of `kept` values beats nth_element, and their order makes the sum of
    // logarithms independent of the order of the rows.
    const auto end = squares.begin() + static_cast<std::ptrdiff_t>(kept);
    std::partial_sort(squares.begin(), end, squares.end() - 1);
    result[i] = lid_of_row({squares.data(), kept}, k);
  }
  return result;
}

double mean_lid(std::span<const float> points, std::size_t dims, std::size_t k) {
  const std::vector<double> values = lid(points, dims, k);
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double mean_lid(const at::Tensor& points, std::int64_t k) {
  constexpr std::int64_t kByDifferences = 2;  // not through products, which lose small distances
  const std::int64_t rows = points.size(0);
  if (rows < 2 || k < 1) {
    throw Error(ErrorKind::internal,
                fmt::format("lid: {} rows, k {}, expected at least 2 rows and k >= 1", rows, k));
  }
  const at::Tensor all = points.to(at::kDouble);
  const std::int64_t kept = std::min(k, rows - 1);
  const std::int64_t block = std::max<std::int64_t>(1, kDistancesAtOnce / rows);
  at::Tensor sum = at::zeros({}, all.options());
  for (std::int64_t start = 0; start < rows; start += block) {
    const at::Tensor some = all.slice(0, start, start + block);
    at::Tensor distances = at::cdist(some, all, 2.0, kByDifferences);
    distances.diagonal(start).fill_(std::numeric_limits<double>::infinity());  // the row itself
    const at::Tensor nearest = std::get<0>(distances.topk(kept, 1, /*largest=*/false));
    const at::Tensor radius = nearest.amax(1, /*keepdim=*/true) + kEpsilon;
    const at::Tensor logarithms = (nearest / radius).log().sum(1);
    sum += (-static_cast<double>(k) / (logarithms + kEpsilon)).sum();
  }
  return sum.item<double>() / static_cast<double>(rows);
}

}  // namespace winnow
