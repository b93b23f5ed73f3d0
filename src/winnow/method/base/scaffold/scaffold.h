// SCAFFOLD, option II (spec: baselines 6): every client knows in which direction its own gradient
// points and in which that of the federation does, and corrects every step by the difference, so
// that uneven data no longer drags its model away.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "winnow/method/base_method.h"

namespace winnow {

namespace scaffold {

// What a client's control gains by one participation: (start - end) / reach - server, where `reach`
// is steps * lr and `server` the received control. The new control is the mean of the gradients met
// on the way.
at::Tensor control_change(const at::Tensor& server, const at::Tensor& start, const at::Tensor& end,
                          double reach);

}  // namespace scaffold

// Tasks carry the server's control and replies the change of the client's as a second state of the
// model's layout; only trained parameters have a control, the rest of it is zero.
// The federation is the pool that a round chooses from. A wrapper may shrink it for good; the
// server's control, a sum over the federation divided by its size, is then divided by the new size.
class Scaffold : public BaseMethod {
 public:
  void declare(Params& params) override;
  ServerNeeds server_needs() const override {
    return needs_sums_as<Scaffold>(
        ServerNeeds::sums("it averages the models and the changes of the control variates"));
  }
  // Local SGD is plain: the momentum of the experiment is not used.
  std::unique_ptr<ClientSide> client_side() const override;
  std::vector<Exchange> exchanges(const Setting& setting) const override;
  std::string needs_sgd() const override;
  Message task(const Round& round, std::int64_t client) const override;
  void begin(Round& round) override;
  // Throws Error(kind peer) for a control of another layout.
  void add(Round& round, const Upload& upload) override;
  void add_sums(Round& round, const Sums& sums) override;
  State finish(Round& round) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;

 private:
  State control_like(const State& global) const;

  double server_lr_ = 1.0;
  Weighting weighting_ = Weighting::equal;

  // Of the round.
  std::int64_t added_ = 0;  // |S|
  State message_;           // the control as all tasks of the round share it
  WeightedMean models_;
  WeightedMean changes_;

  // Lasts between rounds.
  std::int64_t federation_ = 0;  // N: clients that the last round could choose from
  at::Tensor control_;           // c, double, parameters only; undefined before the first round
};

MethodInfo scaffold_info();

}  // namespace winnow
