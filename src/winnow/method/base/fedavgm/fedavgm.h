// FedAvgM (spec: baselines 5): FedAvg whose server follows the averaged displacement with momentum.
#pragma once

#include <ATen/core/Tensor.h>

#include "winnow/method/base_method.h"

namespace winnow {

// b <- momentum*b + (w - mean), w <- w - lr*b over the trained parameters; buffers are averaged.
class FedAvgM : public BaseMethod {
 public:
  void declare(Params& params) override;
  ServerNeeds server_needs() const override {
    return needs_sums_as<FedAvgM>(
        ServerNeeds::sums("it takes a step of its own towards the average of the models"));
  }
  State finish(Round& round) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  double lr_ = 1.0;
  double momentum_ = 0.9;

  at::Tensor velocity_;  // b, double; lasts between rounds, undefined before the first
};

MethodInfo fedavgm_info();

}  // namespace winnow
