// FedAdam, FedYogi and FedAdagrad (spec: baselines 4): the averaged displacement of the clients is
// taken for a gradient, and the server follows it with an adaptive optimiser of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "winnow/method/base_method.h"

namespace winnow {

namespace fedopt {

enum class Kind { adam, yogi, adagrad };

// v after a displacement, element by element; never negative for v >= 0.
at::Tensor second_moment(Kind kind, const at::Tensor& v, const at::Tensor& displacement,
                         double beta2);

// The second moment before the first round.
enum class VInit { zero, tau_squared };

// How the moments of Adam, which start at zero, are corrected.
enum class AdamBias { none, standard, flower };

// What the learning rate is multiplied by in server round `round`, counted from 1.
double bias_correction(AdamBias bias, double beta1, double beta2, std::int64_t round);

}  // namespace fedopt

// Keeps m and v of the trained parameters; buffers are averaged.
class FedOpt : public BaseMethod {
 public:
  explicit FedOpt(fedopt::Kind kind);

  void declare(Params& params) override;
  ServerNeeds server_needs() const override {
    return needs_sums_as<FedOpt>(
        ServerNeeds::sums("it takes a step of its own towards the average of the models"));
  }
  State finish(Round& round) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  fedopt::Kind kind_;
  double lr_ = 0.1;
  double beta1_ = 0.9;
  double beta2_ = 0.99;
  double tau_ = 1e-3;
  fedopt::VInit v_init_ = fedopt::VInit::zero;
  fedopt::AdamBias adam_bias_ = fedopt::AdamBias::none;

  // Lasting: the moments, double, undefined before the first step, and the steps taken.
  at::Tensor m_;
  at::Tensor v_;
  std::int64_t steps_ = 0;
};

MethodInfo fedadam_info();
MethodInfo fedyogi_info();
MethodInfo fedadagrad_info();

}  // namespace winnow
