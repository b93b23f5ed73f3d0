// Symmetric cross-entropy (spec: baselines 25): FedAvg whose clients minimise
// alpha * cross-entropy + beta * reverse cross-entropy. The second part is bounded, so a wrong
// label cannot pull without end.
#pragma once

#include <ATen/core/Tensor.h>

#include "winnow/method/base_method.h"
#include "winnow/train/objective.h"

namespace winnow {

namespace sce {

// -sum_c p_c log y_c of every sample, [batch], where y is the one-hot label with 1e-4 for 0, and p
// the prediction, at least 1e-7. That is 9.210340 (1 - p_label) up to this clamp.
at::Tensor reverse_cross_entropies(const at::Tensor& logits, const at::Tensor& labels);

class SymmetricCrossEntropy final : public Objective {
 public:
  SymmetricCrossEntropy(double alpha, double beta, const TrainOptions& options);

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;

 private:
  double alpha_;
  double beta_;
  double label_smoothing_;
  double temperature_;
};

}  // namespace sce

class Sce final : public BaseMethod {
 public:
  void declare(Params& params) override;
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  std::unique_ptr<ClientSide> client_side() const override;

 private:
  double alpha_ = 0.1;
  double beta_ = 1.0;
};

MethodInfo sce_info();

}  // namespace winnow
