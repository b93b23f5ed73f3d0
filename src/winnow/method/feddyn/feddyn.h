// FedDyn (spec: baselines 7): clients minimise their loss with a linear and a quadratic term that
// change from participation to participation, so that the minima of all clients meet in that of the
// whole federation.
#pragma once

#include <ATen/core/Tensor.h>

#include "winnow/method/base_method.h"

namespace winnow {

// A client's g after it moved from `start` to `end`: g - alpha (end - start). At the minimum of its
// objective that is the gradient of its own loss.
at::Tensor next_gradient(const at::Tensor& g, const at::Tensor& start, const at::Tensor& end,
                         double alpha);

// The server's h after the clients' models, a share |S|/N of the federation, came out as `mean`:
// h - alpha share (mean - start), which is h - (alpha/N) sum_S (w_k - start).
at::Tensor next_correction(const at::Tensor& h, const at::Tensor& start, const at::Tensor& mean,
                           double alpha, double share);

// Messages are FedAvg's. A round starts with select(): the federation is the pool it chooses from.
// A wrapper may shrink the pool for good; h, a sum over the federation divided by its size, is then
// divided by the new size.
class FedDyn : public BaseMethod {
 public:
  void declare(Params& params) override;
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<std::int64_t> select(std::span<const std::int64_t> pool, std::int64_t count,
                                   std::int64_t round, Server& server) override;
  void begin(const State& global) override;
  void add(const Upload& upload) override;
  State finish() override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  double alpha_ = 0.01;

  // Of the round.
  std::int64_t added_ = 0;  // |S|
  at::Tensor start_;        // w, double, parameters only
  WeightedMean models_;     // all weigh the same

  // Lasts between rounds.
  std::int64_t federation_ = 0;  // N: clients that the last round could choose from
  at::Tensor h_;                 // double, parameters only; undefined before the first round
};

MethodInfo feddyn_info();

}  // namespace winnow
