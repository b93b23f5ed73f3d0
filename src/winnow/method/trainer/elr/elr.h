// Early-learning regularisation (spec: rivals 6.1): clients remember what was predicted for each
// sample before wrong labels are learnt by heart, and hold the model to it. ELR remembers the local
// model's predictions, FLR those of the received model too.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>

#include "winnow/method/base_method.h"
#include "winnow/train/objective.h"

namespace winnow {

// The names are those of the method's parameters.
struct ElrOptions {
  double lambda = 3.0;
  double beta = 0.7;
  double local = 1.0;  // share of the local model in a target; ELR: 1
};

// Predictions kept away from 0 and 1 and summing to 1 again, [batch, classes].
at::Tensor bounded_predictions(const at::Tensor& logits);

// mean log(1 - <p, t>), p kept away from 0 and 1.
at::Tensor elr_term(const at::Tensor& logits, const at::Tensor& targets);

// What a step reads and writes, buffers of the trainer.
struct ElrBuffers {
  at::Tensor targets;  // float [samples, classes], by place
  at::Tensor global;   // the same: what the received model predicts; not read by ELR
  at::Tensor place;    // int64 [entries]
};

// Cross-entropy as the options have it plus lambda times elr_term() of the new targets
// t <- beta t + (1 - beta) (local p + (1 - local) p_global).
class ElrObjective final : public Objective {
 public:
  ElrObjective(ElrBuffers buffers, const ElrOptions& elr, const TrainOptions& options)
      : buffers_(std::move(buffers)), elr_(elr), plain_(options) {}

  at::Tensor loss(const Batch& batch, const Models& models) const override;
  std::string signature() const override;
  bool reads_entries() const override { return true; }

 private:
  ElrBuffers buffers_;
  ElrOptions elr_;
  CrossEntropy plain_;
};

// The server's side is FedAvg's.
class Elr final : public BaseMethod {
 public:
  // `with_global`: FLR.
  explicit Elr(bool with_global) : with_global_(with_global) {
    options_.local = with_global ? 0.5 : 1.0;
  }

  void declare(Params& params) override;
  ServerNeeds server_needs() const override { return ServerNeeds::sums("it averages the models"); }
  std::unique_ptr<ClientSide> client_side() const override;

 private:
  bool with_global_;
  ElrOptions options_;
};

MethodInfo elr_info();
MethodInfo flr_info();

}  // namespace winnow
