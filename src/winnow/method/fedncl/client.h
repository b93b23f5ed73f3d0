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
// for the run to judge, and never read here.
class CorrectingClient final : public ClientSide {
 public:
  CorrectingClient(LossRule loss, double confidence, const LocalRule& rule = {})
      : loss_(loss), confidence_(confidence), rule_(rule) {}

  Message handle(const Message& task, ClientContext& context) const override;

 private:
  LossRule loss_;
  double confidence_;
  LocalRule rule_;
};

}  // namespace winnow::fedncl
