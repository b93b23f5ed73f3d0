// The client side of Fed-NCL.
#pragma once

#include "winnow/federation/client.h"

namespace winnow::fedncl {

// Which loss a client reports as h (spec: input-noise 2.1).
enum class LossRule {
  train_running,  // the training loss, a mean over all steps
  eval_final,     // cross-entropy of the trained model over the local samples, in eval mode
};

// Answers "train". A correction always starts from the given labels; what it led to is remembered
// for the run to judge, and never read here. With `dyn_alpha` clients train as those of FedDyn do,
// and remember what that needs.
class CorrectingClient final : public ClientSide {
 public:
  CorrectingClient(LossRule loss, double confidence, const LocalRule& rule = {},
                   double dyn_alpha = 0.0)
      : loss_(loss), confidence_(confidence), rule_(rule), dyn_alpha_(dyn_alpha) {}

  Message handle(const Message& task, ClientContext& context) const override;
  void check_memory(ClientContext& context) const override;

 private:
  TrainOutcome train(const State& received, const LocalSet& set, std::int64_t round,
                     ClientContext& context) const;

  LossRule loss_;
  double confidence_;
  LocalRule rule_;
  double dyn_alpha_;
};

}  // namespace winnow::fedncl
