// FedDecorr (spec: rivals 6.6): FedAvg whose clients also keep the dimensions of their features
// uncorrelated, so that skewed data do not collapse them onto a few.
#pragma once

#include <ATen/core/Tensor.h>

#include "winnow/method/base_method.h"
#include "winnow/train/objective.h"

namespace winnow {

// ||K||_F^2 / d^2 of the correlation matrix K of features, [batch, d], over the batch;
// 0-dimensional. A feature that does not vary is correlated with none, itself included.
at::Tensor correlation_penalty(const at::Tensor& features);

class DecorrelatedCrossEntropy final : public Objective {
 public:
  DecorrelatedCrossEntropy(const TrainOptions& options, double beta)
      : plain_(options), beta_(beta) {}

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;

 private:
  CrossEntropy plain_;
  double beta_;
};

class FedDecorr final : public BaseMethod {
 public:
  void declare(Params& params) override;
  bool needs_features() const override { return true; }
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  std::unique_ptr<ClientSide> client_side() const override;

 private:
  double beta_ = 0.1;
};

MethodInfo feddecorr_info();

}  // namespace winnow
