// FedAvg (spec: baselines 1): uniform selection, plain local training, average weighted by samples.
#pragma once

#include "winnow/method/base_method.h"

namespace winnow {

class FedAvg : public BaseMethod {
 public:
  void declare(Params& params) override;
  ServerNeeds server_needs() const override {
    return needs_sums_as<FedAvg>(ServerNeeds::sums("it averages the models"));
  }
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  void add(Round& round, const Upload& upload) override;

 private:
  Weighting weighting_ = Weighting::samples;
};

MethodInfo fedavg_info();

}  // namespace winnow
