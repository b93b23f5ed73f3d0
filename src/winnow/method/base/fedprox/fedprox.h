// FedProx (spec: baselines 2): FedAvg whose clients are pulled towards the received model by
// (mu/2) ||w - w_received||^2 over the trained parameters.
#pragma once

#include "winnow/method/base/fedavg/fedavg.h"

namespace winnow {

class FedProx : public FedAvg {
 public:
  explicit FedProx(double mu = 0.01) : mu_(mu) {}

  void declare(Params& params) override;
  ServerNeeds server_needs() const override {
    return needs_sums_as<FedProx>(ServerNeeds::sums("it averages the models"));
  }

 protected:
  LocalRule local_rule() const override { return {.proximal = mu_}; }

 private:
  double mu_;
};

MethodInfo fedprox_info();

}  // namespace winnow
