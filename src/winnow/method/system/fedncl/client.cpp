#include "winnow/method/system/fedncl/client.h"

#include <ATen/ATen.h>

#include <utility>

#include "winnow/method/base/feddyn/feddyn.h"
#include "winnow/method/system/fedncl/arithmetic.h"

namespace winnow::fedncl {
namespace {

// The given labels, replaced where the received model is sure (spec: input-noise 2.5).
Labels corrected_labels(const State& received, double confidence, ClientContext& context) {
  const at::Tensor logits = context.logits(received, context.options().eval_batch);
  const at::Tensor labels =
      confident_labels(logits.softmax(1), context.labels_tensor(), confidence).cpu();
  return {labels.data_ptr<std::int64_t>(), labels.data_ptr<std::int64_t>() + labels.numel()};
}

}  // namespace

TrainOutcome CorrectingClient::train(const State& received, const LocalSet& set, std::int64_t round,
                                     ClientContext& context) const {
  return dyn_alpha_ > 0.0 ? feddyn::train_dynamically(received, set, round, dyn_alpha_, context)
                          : context.train(received, set, round, rule_);
}

void CorrectingClient::check_memory(ClientContext& context) const {
  if (dyn_alpha_ > 0.0) {
    feddyn::check_dynamic_memory(context);
  }
}

Message CorrectingClient::handle(const Message& task, ClientContext& context) const {
  const std::int64_t round = round_of(task);
  const auto& received = task.get<State>("model");
  LocalSet set = context.local_set();
  Labels corrected;  // outlives the set
  if (task.get<std::uint8_t>("correct") != 0 && set.size() > 0) {
    corrected = corrected_labels(received, confidence_, context);
    set.labels = corrected;
  }
  TrainOutcome outcome = train(received, set, round, context);
  double loss = outcome.step_loss;
  if (loss_ == LossRule::eval_final) {
    loss = context.score(outcome.state, set).mean_loss();
  }
  if (!corrected.empty()) {
    context.trace().last_labels = std::move(corrected);
  }
  return Message("train_done")
      .set("model", std::move(outcome.state))
      .set("samples", static_cast<std::uint32_t>(context.size()))
      .set("loss", loss);
}

}  // namespace winnow::fedncl
