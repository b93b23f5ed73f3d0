// FedAdam, FedYogi and FedAdagrad (spec: baselines 4): the averaged displacement of the clients is
// taken for a gradient, and the server follows it with an adaptive optimiser of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "winnow/method/base_method.h"

namespace winnow {

enum class FedOptKind { adam, yogi, adagrad };

// v after a displacement, element by element; never negative for v >= 0.
at::Tensor second_moment(FedOptKind kind, const at::Tensor& v, const at::Tensor& displacement,
                         double beta2);

// What the learning rate is multiplied by in server round `round`, counted from 1.
// `bias` is "none", "standard" or "flower".
double bias_correction(const std::string& bias, double beta1, double beta2, std::int64_t round);

// Keeps m and v of the trained parameters; buffers are averaged.
class FedOpt : public BaseMethod {
 public:
  explicit FedOpt(FedOptKind kind);

  void declare(Params& params) override;
  void begin(const State& global) override;
  State finish() override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  FedOptKind kind_;
  double lr_ = 0.1;
  double beta1_ = 0.9;
  double beta2_ = 0.99;
  double tau_ = 1e-3;
  std::string v_init_ = "zero";
  std::string adam_bias_ = "none";

  at::Tensor start_;  // of the round: w, double, parameters only
  // Lasting: the moments, double, undefined before the first step, and the steps taken.
  at::Tensor m_;
  at::Tensor v_;
  std::int64_t steps_ = 0;
};

MethodInfo fedadam_info();
MethodInfo fedyogi_info();
MethodInfo fedadagrad_info();

}  // namespace winnow
