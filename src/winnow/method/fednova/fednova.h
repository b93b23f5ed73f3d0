// FedNova (spec: baselines 3): clients that take different numbers of steps pull the model towards
// those that take most. Every displacement is divided by what its steps amount to before averaging,
// and the average is stretched by their mean.
#pragma once

#include <ATen/core/Tensor.h>

#include "winnow/method/base_method.h"

namespace winnow {

// What `steps` of SGD with momentum amount to: the sum of the coefficients with which the gradients
// enter the displacement. c <- momentum*c + 1, a <- a + c; without momentum the number of steps.
double momentum_steps(std::int64_t steps, double momentum);

// The same for plain SGD with a proximal pull: a <- (1 - pull)*a + 1, where `pull` is lr * mu.
double proximal_steps(std::int64_t steps, double pull);

// Replies carry `a`, what the client's steps amount to, and with a proximal term `tau`, their
// number.
class FedNova : public BaseMethod {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Schema> schemas() const override;
  void begin(const State& global) override;
  // An upload of a client that took no step is passed over.
  void add(const Upload& upload) override;
  State finish() override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  double mu_ = 0.0;
  double server_momentum_ = 0.0;
  bool literal_ = false;

  // Of the round, with u_k the weight of an upload.
  at::Tensor start_;      // w, double, parameters only
  at::Tensor shift_;      // sum u_k (w - w_k) / a_k, double
  double weight_ = 0.0;   // sum u_k
  double shrink_ = 0.0;   // sum u_k / a_k
  double stretch_ = 0.0;  // sum u_k a_k; with a proximal term sum u_k tau_k

  at::Tensor velocity_;  // of the server's momentum, double; lasts between rounds
};

MethodInfo fednova_info();

}  // namespace winnow
