// Co-teaching (spec: baselines 21): two models; in every batch each passes the samples it finds
// easiest to the other, which learns from these alone.
#pragma once

#include <ATen/core/Tensor.h>

#include "winnow/method/twin_method.h"
#include "winnow/train/objective.h"

namespace winnow {

namespace coteaching {

// The share of a batch that is left out in a round: from 0 in round 0 in a straight line to `rate`
// in round `ramp` - 1, and `rate` from then on.
double forget_rate_in(std::int64_t round, double rate, std::int64_t ramp);

// How many samples of a batch are passed on: the whole number below (1 - rate) * batch.
std::int64_t passed_on(std::int64_t batch, double rate);

// What the first and the second model minimise: the mean of its own losses over the `count` samples
// that the other finds smallest. `count` is a tensor of one whole number.
struct Exchanged {
  at::Tensor first;
  at::Tensor second;
  at::Tensor passed;  // 1 for the samples that the first model learns from, 0 for the others
};
Exchanged exchanged_losses(const at::Tensor& first, const at::Tensor& second,
                           const at::Tensor& count);

// What a step reads and writes, buffers of the trainer.
struct Buffers {
  at::Tensor counts;  // int64 [steps]: passed_on() of the batch
  at::Tensor place;   // int64 [entries]
  at::Tensor passed;  // uint8 [samples]: whether the first model last learnt from it; by place
};

// Of models 0 and 1.
class Objective final : public winnow::Objective {
 public:
  Objective(Buffers buffers, const TrainOptions& options);

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;
  bool reads_entries() const override { return true; }
  Passes passes(std::int64_t views) const override { return {2 * views, 2 * views}; }

 private:
  Buffers buffers_;
  double label_smoothing_;
  double temperature_;
};

}  // namespace coteaching

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
