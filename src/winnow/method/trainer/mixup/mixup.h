// Mixup (spec: baselines 26): FedAvg whose clients train on mixtures of two samples of a batch and
// of their labels.
#pragma once

#include "winnow/method/base_method.h"

namespace winnow {

class Mixup final : public BaseMethod {
 public:
  void declare(Params& params) override;
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  std::unique_ptr<ClientSide> client_side() const override;

 private:
  double alpha_ = 1.0;
};

MethodInfo mixup_info();

}  // namespace winnow
