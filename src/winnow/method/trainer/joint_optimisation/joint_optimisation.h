// Joint optimisation (spec: baselines 22): clients train the model and their labels in turn. A
// sample's label becomes the mean of what was last predicted for it; two terms keep the model from
// predicting one class for all and from never making up its mind.
#pragma once

#include "winnow/method/base_method.h"
#include "winnow/method/trainer/joint_optimisation/objective.h"

namespace winnow {

// The server's side is FedAvg's.
class JointOptimisation final : public BaseMethod {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  std::unique_ptr<ClientSide> client_side() const override;

 private:
  joint_optimisation::Options options_;
};

MethodInfo joint_optimisation_info();

}  // namespace winnow
