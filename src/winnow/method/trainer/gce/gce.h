// Losses that a wrong label cannot pull without end (spec: rivals 6.2): the generalised
// cross-entropy (1 - p_y^q) / q, which is cross-entropy as q goes to 0, and the mean absolute error
// 2 (1 - p_y). Clients minimise them, the server does as FedAvg does.
#pragma once

#include <ATen/core/Tensor.h>

#include "winnow/method/base_method.h"
#include "winnow/train/objective.h"

namespace winnow {

// (1 - p_y^q) / q of every sample, [batch]; 0 < q <= 1.
at::Tensor generalised_cross_entropies(const at::Tensor& logits, const at::Tensor& labels,
                                       double q);
// sum_c |p_c - y_c| = 2 (1 - p_y) of every sample.
at::Tensor absolute_errors(const at::Tensor& logits, const at::Tensor& labels);

// `scale` (1 - p_y^q) / q; mixed up where the batch is.
class BoundedLoss final : public Objective {
 public:
  BoundedLoss(double q, double scale) : q_(q), scale_(scale) {}

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;

 private:
  double q_;
  double scale_;
};

class Gce final : public BaseMethod {
 public:
  void declare(Params& params) override;
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  std::unique_ptr<ClientSide> client_side() const override;

 private:
  double q_ = 0.7;
};

class Mae final : public BaseMethod {
 public:
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  std::unique_ptr<ClientSide> client_side() const override;
};

MethodInfo gce_info();
MethodInfo mae_info();

}  // namespace winnow
