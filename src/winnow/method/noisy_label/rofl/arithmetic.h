// The arithmetic of RoFL, free of messages and of clients (spec: baselines 16).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "winnow/base/params.h"

namespace winnow::rofl {

// The method's parameters. Client and server sides share them.
struct Options {
  double forget_rate = 0.2;
  std::int64_t forget_rounds = 10;
  std::int64_t pseudo_round = 100;
  double lambda_cen = 1.0;
  double lambda_e = 0.8;
  bool literal = false;
};

void declare(Options& options, Params& params);

// The share of a batch that is left out: from 0 in the first round to forget_rate in the last of
// the first forget_rounds.
double forget_rate_in(const Options& options, std::int64_t round);
// lambda_cen * min(1, round / pseudo_round).
double centroid_weight_in(const Options& options, std::int64_t round);
// int((1 - rate) * batch), but at least one.
std::int64_t kept_of(std::int64_t batch, double rate);

// A centroid of zeros is that of a class nothing is known of.

// The class whose centroid has the largest cosine with each row of `features`.
at::Tensor nearest(const at::Tensor& features, const at::Tensor& centroids);

// The means of the rows of each class; zeros for a class without rows.
at::Tensor class_means(const at::Tensor& features, const at::Tensor& labels, std::int64_t classes);

// The centroids after a batch: f[c] <- (1 - g) f[c] + g m[c], where m[c] is the mean of the `kept`
// rows of class c and g = cos(f[c], m[c])^2. A class without such rows stays as it is; one nothing
// was known of becomes m[c].
at::Tensor moved(const at::Tensor& centroids, const at::Tensor& features, const at::Tensor& labels,
                 const at::Tensor& kept);

// The server's centroids out of those of a round's clients: for each class sum s f / sum s over
// clients, with s = cos(centroid, f). Where |sum s| < 1e-8 the centroid stays; of a class nothing
// was known of it is the plain mean over the clients that know it.
class CentroidMean {
 public:
  // `centroids` are rows of equal length, one per class; all zeros before the first round.
  CentroidMean(std::vector<float> centroids, std::int64_t classes);

  // As many values as there are centroid values.
  void add(std::span<const float> centroids);
  std::vector<float> finish() const;

 private:
  std::vector<float> centroids_;
  std::size_t width_;
  std::vector<double> sums_;
  std::vector<double> weights_;  // by class
};

}  // namespace winnow::rofl
