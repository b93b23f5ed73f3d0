#include "winnow/method/trimmed_mean/trimmed_mean.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "winnow/base/error.h"

namespace winnow {
namespace {

// float64 [coordinates] from float32 [models, coordinates] and float64 [models].
at::Tensor trim_block(const at::Tensor& values, const at::Tensor& factors, std::int64_t per_end) {
  const auto [sorted, order] = at::sort(values, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  at::Tensor sum = at::zeros({values.size(1)}, factors.options());
  at::Tensor weight = at::zeros_like(sum);
  // Row by row instead of at::sum: the order of the additions is then the same for every block.
  for (std::int64_t row = per_end; row < values.size(0) - per_end; ++row) {
    const at::Tensor factor = factors.index_select(0, order.select(0, row));
    sum.add_(sorted.select(0, row).to(at::kDouble).mul_(factor));
    weight.add_(factor);
  }
  return sum.div_(weight);
}

}  // namespace

std::int64_t trimmed_per_end(double trim, std::int64_t count) {
  return static_cast<std::int64_t>(trim * static_cast<double>(count) + 1e-9);
}

State trimmed_mean(const std::vector<State>& models, const std::vector<double>& factors,
                   std::int64_t per_end, std::int64_t block) {
  const LayoutPtr& layout = models.front().layout;
  const at::Device device = models.front().flat.device();
  State result = State::zeros(layout, device);
  const at::Tensor weights = at::tensor(factors, at::kDouble).to(device);
  const auto stacked = [&](std::int64_t start, std::int64_t size) {
    std::vector<at::Tensor> rows;
    rows.reserve(models.size());
    for (const State& model : models) {
      rows.push_back(model.flat.narrow(0, start, size).to(device));
    }
    return at::stack(rows);
  };
  const std::int64_t trimmed = layout->parameters() + layout->buffers();
  for (std::int64_t start = 0; start < trimmed; start += block) {
    const std::int64_t size = std::min(block, trimmed - start);
    result.flat.narrow(0, start, size).copy_(trim_block(stacked(start, size), weights, per_end));
  }
  if (layout->counters() > 0) {
    result.counters().copy_(stacked(trimmed, layout->counters()).to(at::kDouble).mean(0).round_());
  }
  return result;
}

void TrimmedMean::declare(Params& params) {
  params.add("trim", trim_, "share of the clients' values dropped at each end")
      .range(0.0, 0.5)
      .source("spec baselines 9, FedNS's code");
}

void TrimmedMean::begin(const State& /*global*/) {
  models_.clear();
  factors_.clear();
}

void TrimmedMean::add(const Upload& upload) {
  if (upload.factor <= 0.0) {
    return;
  }
  if (!models_.empty()) {
    require_same_layout(*upload.model().layout, *models_.front().layout);
  }
  models_.push_back(upload.model());
  factors_.push_back(upload.factor);
}

State TrimmedMean::finish() {
  const auto count = static_cast<std::int64_t>(models_.size());
  if (count == 0) {
    throw Error(ErrorKind::run, "no client contributed to this round",
                "lower the noise or raise federation.fraction");
  }
  const std::int64_t per_end = trimmed_per_end(trim_, count);
  if (2 * per_end >= count) {
    throw Error(ErrorKind::run,
                fmt::format("trim = {} drops {} of {} models at each end, which leaves none", trim_,
                            per_end, count),
                "lower trim or raise federation.fraction");
  }
  const std::vector<State> models = std::exchange(models_, {});
  return trimmed_mean(models, std::exchange(factors_, {}), per_end);
}

MethodInfo trimmed_mean_info() {
  return {"trimmed_mean", "robust aggregation",
          "mean of every coordinate without its smallest and largest values",
          [] { return std::make_unique<TrimmedMean>(); }};
}

}  // namespace winnow
