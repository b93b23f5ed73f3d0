// MOON (spec: baselines 8): FedAvg whose clients keep the features of their model near those of the
// received one and away from those of the model they had before.
#pragma once

#include <memory>

#include "winnow/method/base_method.h"

namespace winnow {

// Each client remembers the model at the end of its last participation.
class Moon final : public BaseMethod {
 public:
  explicit Moon(double mu = 1.0, double tau = 0.5) : mu_(mu), tau_(tau) {}

  void declare(Params& params) override;
  bool needs_features() const override { return true; }
  std::int64_t projection() const override { return 256; }  // spec: baselines 8
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  std::unique_ptr<ClientSide> client_side() const override;

 private:
  double mu_;
  double tau_;
};

MethodInfo moon_info();

}  // namespace winnow
