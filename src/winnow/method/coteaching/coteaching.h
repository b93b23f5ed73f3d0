// Co-teaching (spec: baselines 21): two models; in every batch each passes the samples it finds
// easiest to the other, which learns from these alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "winnow/method/twin_method.h"
#include "winnow/train/objective.h"

namespace winnow {

// The share of a batch that is left out in a round: from 0 in round 0 in a straight line to `rate`
// in round `ramp` - 1, and `rate` from then on.
double forget_rate_in(std::int64_t round, double rate, std::int64_t ramp);

// How many samples of a batch are passed on: the whole number below (1 - rate) * batch.
std::int64_t passed_on(std::int64_t batch, double rate);

// What the first and the second model minimise: the mean of its own losses over the `count` samples
// that the other finds smallest. `count` is a tensor of one whole number.
std::pair<at::Tensor, at::Tensor> exchanged_losses(const at::Tensor& first,
                                                   const at::Tensor& second,
                                                   const at::Tensor& count);

// Of models 0 and 1; `counts` is a lane's buffer, by step.
class CoTeachingObjective final : public Objective {
 public:
  CoTeachingObjective(at::Tensor counts, const TrainOptions& options);

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;
  bool reads_entries() const override { return true; }

 private:
  at::Tensor counts_;
  double label_smoothing_;
  double temperature_;
};

class CoTeaching final : public TwinMethod {
 public:
  void declare(Params& params) override;
  std::unique_ptr<ClientSide> client_side() const override;
  void play(std::int64_t round, Server& server) override;

 private:
  double forget_rate_ = 0.2;
  std::int64_t ramp_ = 100;
};

MethodInfo coteaching_info();

}  // namespace winnow
