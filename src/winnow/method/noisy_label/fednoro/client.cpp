#include "winnow/method/noisy_label/fednoro/client.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "winnow/method/local_training.h"
#include "winnow/method/noisy_label/fednoro/arithmetic.h"
#include "winnow/method/trainer/logit_adjustment/logit_adjustment.h"
#include "winnow/train/loss.h"

namespace winnow::fednoro {
namespace {

Message tell_losses(const Message& task, ClientContext& context) {
  const LocalSet set = context.local_set();
  const at::Tensor outputs = context.logits(task.get<State>("model"), context.options().eval_batch);
  const at::Tensor values =
      losses(outputs, context.labels_tensor()).to(at::kDouble).cpu().contiguous();
  const ClassLosses own =
      class_losses({values.data_ptr<double>(), static_cast<std::size_t>(values.numel())},
                   set.labels, static_cast<std::size_t>(context.classes()));
  return Message("class_losses_done").set("mean", own.mean).set("count", own.count);
}

}  // namespace

at::Tensor distilled_loss(const at::Tensor& logits, const at::Tensor& labels,
                          const at::Tensor& teacher, const at::Tensor& prior,
                          const at::Tensor& weight) {
  const at::Tensor adjusted = logits + prior;
  const at::Tensor known = prior.gt(kAbsentClass / 2);
  const at::Tensor log_p = adjusted.log_softmax(1) * known;
  const at::Tensor divergence = (at::xlogy(teacher, teacher) - teacher * log_p).sum(1).mean();
  return (weight * divergence + (1 - weight) * at::cross_entropy_loss(adjusted, labels)).squeeze();
}

at::Tensor Objective::loss(const Batch& batch, const Models& models) const {
  const at::Tensor places = buffers_.place.index_select(0, batch.entries);
  return distilled_loss(models.logits(0, batch.images), batch.labels,
                        buffers_.teacher.index_select(0, places), buffers_.prior,
                        buffers_.weight.narrow(0, 0, 1));
}

Message Client::handle(const Message& task, ClientContext& context) const {
  if (task.kind() == "class_losses") {
    return tell_losses(task, context);
  }
  context.options().mixup = 0.0;  // a mixture has no class of its own to be frequent
  if (task.kind() == "train_noisy") {
    State trained =
        context.size() == 0 ? task.get<State>("model").clone() : train_noisy(task, context);
    return train_done(std::move(trained), context).renamed("train_noisy_done");
  }
  return train_done(context.train_by(AdjustedCrossEntropy(prior_buffer(context)),
                                     task.get<State>("model"), round_of(task)),
                    context);
}

State DistillingClient::train_noisy(const Message& task, ClientContext& context) const {
  const std::int64_t round = round_of(task);
  const auto& start = task.get<State>("model");
  const TrainOptions& options = context.options();
  Trainer& trainer = context.trainer();
  const TrainKey key = context.key(round);
  const Plan plan = make_plan(context.local_set(), options, context.augment(), key);
  const at::Tensor teacher =
      context.logits(start, options.eval_batch).to(at::kFloat).div(temperature_).softmax(1);
  trainer.begin({start}, key);
  const Buffers buffers{.prior = prior_buffer(context),
                        .teacher = fill(trainer, "fednoro.teacher", teacher),
                        .place = fill(trainer, "fednoro.place", plan.place),
                        .weight = fill(trainer, "fednoro.weight",
                                       at::full({1}, task.get<double>("weight"), at::kFloat))};
  trainer.take_steps(plan, Objective(buffers), stepping(options, round));
  return trainer.finished_model();
}

}  // namespace winnow::fednoro
