#include "winnow/method/noisy_label/rofl/arithmetic.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "winnow/method/unit_rows.h"
#include "winnow/train/soft_loss.h"

namespace winnow::rofl {
namespace {

constexpr double kNoWeight = 1e-8;

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

double length(std::span<const float> values) {
  return std::sqrt(dot(values, values));
}

}  // namespace

void declare(Options& options, Params& params) {
  params.add("forget_rate", options.forget_rate, "share of every batch that is left out as noisy")
      .range(0, 1)
      .source("released code; 0.2 in FedRN's comparison too");
  params
      .add("forget_rounds", options.forget_rounds,
           "rounds in which the share that is left out rises from 0 to forget_rate")
      .at_least(1)
      .source("released code");
  params
      .add("pseudo_round", options.pseudo_round,
           "first round with pseudo-labels; until then the weight of the centroid loss rises")
      .at_least(0)
      .source("T_pl: FedCorr uses 100 for CIFAR-10, 400 for CIFAR-100, 10 for Clothing1M");
  params
      .add("lambda_cen", options.lambda_cen,
           "weight of the centroid loss, the distance from the class centroids")
      .at_least(0)
      .source("paper");
  params.add("lambda_e", options.lambda_e, "weight of the entropy of the predictions")
      .at_least(0)
      .source("paper");
  params
      .add("literal", options.literal,
           "compute the centroid loss as the released code does: as a sum, and without a gradient")
      .source("spec: baselines 16");
}

double forget_rate_in(const Options& options, std::int64_t round) {
  if (round >= options.forget_rounds) {
    return options.forget_rate;
  }
  const auto last = static_cast<double>(std::max<std::int64_t>(1, options.forget_rounds - 1));
  return options.forget_rate * static_cast<double>(round) / last;
}

double centroid_weight_in(const Options& options, std::int64_t round) {
  if (round >= options.pseudo_round) {
    return options.lambda_cen;
  }
  return options.lambda_cen * static_cast<double>(round) /
         static_cast<double>(options.pseudo_round);
}

std::int64_t kept_of(std::int64_t batch, double rate) {
  constexpr double kRounding = 1e-9;
  const auto kept =
      static_cast<std::int64_t>((1.0 - rate) * static_cast<double>(batch) + kRounding);
  return std::max<std::int64_t>(1, kept);
}

at::Tensor nearest(const at::Tensor& features, const at::Tensor& centroids) {
  // The length of a feature does not change which centroid is nearest.
  return features.matmul(unit_rows(centroids).t()).argmax(1);
}

at::Tensor class_means(const at::Tensor& features, const at::Tensor& labels, std::int64_t classes) {
  const at::Tensor member = one_hot_rows(labels, classes);
  return member.t().matmul(features).div(member.sum(0).clamp_min(1).unsqueeze(1));
}

at::Tensor moved(const at::Tensor& centroids, const at::Tensor& features, const at::Tensor& labels,
                 const at::Tensor& kept) {
  const at::Tensor member =
      one_hot_rows(labels, centroids.size(0)) * kept.to(at::kFloat).unsqueeze(1);
  const at::Tensor counts = member.sum(0).unsqueeze(1);
  const at::Tensor means = member.t().matmul(features).div(counts.clamp_min(1));
  const at::Tensor cosine = (unit_rows(centroids) * unit_rows(means)).sum(1, /*keepdim=*/true);
  const at::Tensor unknown = centroids.norm(2, 1, /*keepdim=*/true).le(kNoLength);
  const at::Tensor step = at::where(unknown, at::ones_like(cosine), cosine.square());
  const at::Tensor next = (1 - step) * centroids + step * means;
  return at::where(counts.gt(0), next, centroids);
}

CentroidMean::CentroidMean(std::vector<float> centroids, std::int64_t classes)
    : centroids_(std::move(centroids)),
      width_(centroids_.size() / static_cast<std::size_t>(classes)),
      sums_(centroids_.size(), 0.0),
      weights_(static_cast<std::size_t>(classes), 0.0) {}

void CentroidMean::add(std::span<const float> centroids) {
  for (std::size_t c = 0; c < weights_.size(); ++c) {
    const std::span<const float> own = centroids.subspan(c * width_, width_);
    const std::span<const float> known = std::span(centroids_).subspan(c * width_, width_);
    const double own_length = length(own);
    const double known_length = length(known);
    if (own_length <= kNoLength) {
      continue;
    }
    const double weight =
        known_length <= kNoLength ? 1.0 : dot(own, known) / (own_length * known_length);
    weights_[c] += weight;
    for (std::size_t i = 0; i < width_; ++i) {
      sums_[c * width_ + i] += weight * static_cast<double>(own[i]);
    }
  }
}

std::vector<float> CentroidMean::finish() const {
  std::vector<float> next = centroids_;
  for (std::size_t c = 0; c < weights_.size(); ++c) {
    if (std::abs(weights_[c]) < kNoWeight) {
      continue;
    }
    for (std::size_t i = c * width_; i < (c + 1) * width_; ++i) {
      next[i] = static_cast<float>(sums_[i] / weights_[c]);
    }
  }
  return next;
}

}  // namespace winnow::rofl
