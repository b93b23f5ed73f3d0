// FedNova (spec: baselines 3): clients that take different numbers of steps pull the model towards
// those that take most. Every displacement is divided by what its steps amount to before averaging,
// and the average is stretched by their mean.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "winnow/method/base_method.h"

namespace winnow {

namespace fednova {

// What `steps` of SGD amount to: the sum of the absolute coefficients with which the gradients
// enter the displacement, their number for plain SGD. `pull` is lr * mu of a proximal term. How far
// a gradient has carried the model, d, and how fast it still does, u, follow u <- momentum*u -
// pull*d, d <- d + u from 1 on; the sum is that of all |d|.
double amount_of_steps(std::int64_t steps, double momentum, double pull = 0.0);

}  // namespace fednova

// Replies carry `a`, what the client's steps amount to, and with a proximal term `tau`, their
// number.
class FedNova : public BaseMethod {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  ServerNeeds server_needs() const override {
    return ServerNeeds::two_phases(
        "it weights every update by the steps that its client took, which are sent with the model",
        false);
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  std::string needs_sgd() const override;
  void begin(Round& round) override;
  // An upload of a client that took no step is passed over.
  void add(Round& round, const Upload& upload) override;
  State finish(Round& round) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  // What the parameters move by, w - w_next.
  at::Tensor step() const;
  // Adds what is left of the server's momentum to a step, and keeps it.
  at::Tensor carried_on(const at::Tensor& step, const Round& round);

  double mu_ = 0.0;
  double server_momentum_ = 0.0;
  bool literal_ = false;

  // Of the round, with u_k the weight of an upload.
  at::Tensor start_;      // w, double, parameters only
  at::Tensor shift_;      // sum u_k (w - w_k) / a_k, double
  double weight_ = 0.0;   // sum u_k
  double shrink_ = 0.0;   // sum u_k / a_k
  double stretch_ = 0.0;  // sum u_k a_k; with a proximal term sum u_k tau_k
  double amount_ = 0.0;   // the first a_k
  bool alike_ = true;     // all a_k are equal

  // Of the server's momentum, double, and the round that moved by it; lasts between rounds.
  at::Tensor velocity_;
  std::int64_t velocity_round_ = 0;
};

MethodInfo fednova_info();

}  // namespace winnow
