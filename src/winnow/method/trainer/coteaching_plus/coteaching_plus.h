// Co-teaching+ (spec: rivals 6.5): as Co-teaching, but only among the samples of a batch on which
// the two models disagree.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>

#include "winnow/method/twin_method.h"
#include "winnow/train/objective.h"

namespace winnow {

// What is learnt from in a batch: 1 for a sample on which the models' classes differ, 0 for others;
// 1 for all where they agree on every sample.
at::Tensor disagreement(const at::Tensor& first, const at::Tensor& second);

// Which candidates one model passes to the other: of its losses the floor(keep * candidates)
// smallest, at least one. `keep` is a tensor of one number.
at::Tensor passed_among(const at::Tensor& losses, const at::Tensor& candidates,
                        const at::Tensor& keep);

// What a step reads and writes, buffers of the trainer.
struct CoTeachingPlusBuffers {
  at::Tensor keep;    // float [1]: share that is passed on
  at::Tensor place;   // int64 [entries]
  at::Tensor passed;  // uint8 [samples]: whether the first model last learnt from it; by place
};

// Of models 0 and 1.
class CoTeachingPlusObjective final : public Objective {
 public:
  CoTeachingPlusObjective(CoTeachingPlusBuffers buffers, const TrainOptions& options)
      : buffers_(std::move(buffers)),
        label_smoothing_(options.label_smoothing),
        temperature_(options.temperature) {}

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;
  bool reads_entries() const override { return true; }
  Passes passes(std::int64_t views) const override { return {2 * views, 2 * views}; }

 private:
  CoTeachingPlusBuffers buffers_;
  double label_smoothing_;
  double temperature_;
};

class CoTeachingPlus final : public TwinMethod {
 public:
  void declare(Params& params) override;
  void check(const Setting& setting) const override;
  std::unique_ptr<ClientSide> client_side() const override;
  // Notes `forget_rate`.
  void play(std::int64_t number, Server& server) override;

 private:
  double forget_rate_ = 0.2;
  std::int64_t ramp_ = 100;
  std::int64_t warmup_ = 20;
};

MethodInfo coteaching_plus_info();

}  // namespace winnow
