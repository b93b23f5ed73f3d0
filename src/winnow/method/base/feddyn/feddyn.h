// FedDyn (spec: baselines 7): clients minimise their loss with a linear and a quadratic term that
// change from participation to participation, so that the minima of all clients meet in that of the
// whole federation.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "winnow/federation/client.h"
#include "winnow/method/base_method.h"

namespace winnow {

namespace feddyn {

// Trains on `set` as a client of FedDyn does, and keeps its g in its memory. A training that
// diverged leaves g as it was.
TrainOutcome train_dynamically(const State& received, const LocalSet& set, std::int64_t round,
                               double alpha, ClientContext& context);
// Refuses a g out of a checkpoint that does not fit.
void check_dynamic_memory(ClientContext& context);

// A client's g after it moved from `start` to `end`: g - alpha (end - start). At the minimum of its
// objective that is the gradient of its own loss.
at::Tensor next_gradient(const at::Tensor& g, const at::Tensor& start, const at::Tensor& end,
                         double alpha);

// The server's h after the clients' models, a share |S|/N of the federation, came out as `mean`:
// h - alpha share (mean - start), which is h - (alpha/N) sum_S (w_k - start).
at::Tensor next_correction(const at::Tensor& h, const at::Tensor& start, const at::Tensor& mean,
                           double alpha, double share);

}  // namespace feddyn

// Messages are FedAvg's. The federation is the pool that a round chooses from. A wrapper may shrink
// it for good; h, a sum over the federation divided by its size, is then divided by the new size.
class FedDyn : public BaseMethod {
 public:
  void declare(Params& params) override;
  ServerNeeds server_needs() const override {
    return needs_sums_as<FedDyn>(
        ServerNeeds::sums("it averages the models, and computes its correction from the average"));
  }
  std::unique_ptr<ClientSide> client_side() const override;
  std::string needs_sgd() const override;
  void begin(Round& round) override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  void add(Round& round, const Upload& upload) override;
  void add_sums(Round& round, const Sums& sums) override;
  State finish(Round& round) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  double alpha_ = 0.01;

  // Of the round.
  std::int64_t added_ = 0;  // |S|
  WeightedMean models_;     // all weigh the same

  // Lasts between rounds.
  std::int64_t federation_ = 0;  // N: clients that the last round could choose from
  at::Tensor h_;                 // double, parameters only; undefined before the first round
};

MethodInfo feddyn_info();

}  // namespace winnow
