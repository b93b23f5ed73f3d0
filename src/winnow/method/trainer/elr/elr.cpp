#include "winnow/method/trainer/elr/elr.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "winnow/federation/aggregation.h"
#include "winnow/method/local_training.h"

namespace winnow {
namespace {

constexpr const char* kTargets = "elr.targets";
constexpr double kLeast = 1e-4;

// Remembers tensors["elr.targets"], the targets of its samples, which start at 0. A model that
// diverged changes nothing of that.
class ElrClient final : public ClientSide {
 public:
  explicit ElrClient(const ElrOptions& options) : options_(options) {}

  Message handle(const Message& task, ClientContext& context) const override {
    context.options().mixup = 0.0;  // what is predicted of a mixture is no sample's target
    const auto& start = task.get<State>("model");
    return train_done(context.size() == 0 ? start.clone() : train(start, round_of(task), context),
                      context);
  }

  void check_memory(ClientContext& context) const override {
    context.archive().tensor(kTargets, at::kFloat, {context.size(), context.classes()});
  }

 private:
  State train(const State& start, std::int64_t round, ClientContext& context) const {
    const TrainOptions& train = context.options();
    Trainer& trainer = context.trainer();
    const TrainKey key = context.key(round);
    const Plan plan = make_plan(context.local_set(), train, context.augment(), key);
    const at::Tensor none = at::zeros({context.size(), context.classes()}, at::kFloat);
    ElrBuffers buffers;
    buffers.targets = fill(trainer, kTargets, context.recall(kTargets, none));
    buffers.place = fill(trainer, "elr.place", plan.place);
    if (options_.local < 1.0) {
      buffers.global =
          fill(trainer, "elr.global",
               bounded_predictions(context.logits(start, train.eval_batch).to(at::kFloat)));
    }
    trainer.begin({start}, key);
    trainer.take_steps(plan, ElrObjective(buffers, options_, train), stepping(train, round));
    State trained = trainer.finished_model();
    if (all_finite(trained)) {
      context.archive().tensors[kTargets] = first_rows(buffers.targets, context.size());
    }
    return trained;
  }

  ElrOptions options_;
};

}  // namespace

at::Tensor bounded_predictions(const at::Tensor& logits) {
  const at::Tensor p = logits.softmax(1).clamp(kLeast, 1.0 - kLeast);
  return p / p.sum(1, /*keepdim=*/true);
}

at::Tensor elr_term(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor p = logits.softmax(1).clamp(kLeast, 1.0 - kLeast);
  return (1 - (p * targets).sum(1)).clamp_min(kLeast).log().mean();
}

at::Tensor ElrObjective::loss(const Batch& batch, const Models& models) const {
  const at::Tensor logits = models.logits(0, batch.images);
  at::Tensor value = plain_.loss_of(logits, batch);
  at::Tensor targets;
  {
    const c10::NoGradGuard remembering;
    const at::Tensor places = buffers_.place.index_select(0, batch.entries);
    at::Tensor fresh = bounded_predictions(logits) * elr_.local;
    if (elr_.local < 1.0) {
      fresh = fresh + buffers_.global.index_select(0, places) * (1.0 - elr_.local);
    }
    targets = buffers_.targets.index_select(0, places) * elr_.beta + fresh * (1.0 - elr_.beta);
    buffers_.targets.index_copy_(0, places, targets);
  }
  // Without the second term the rest is bit for bit what FedAvg minimises.
  return elr_.lambda == 0.0 ? value : value + elr_term(logits, targets) * elr_.lambda;
}

std::string ElrObjective::signature() const {
  return fmt::format("elr {} {} {} {}", elr_.lambda, elr_.beta, elr_.local, plain_.signature());
}

void Elr::declare(Params& params) {
  params
      .add("lambda", options_.lambda,
           "weight of the term that keeps predictions near earlier ones; 0: FedAvg")
      .at_least(0)
      .source("ELR's paper, CIFAR-10");
  params.add("beta", options_.beta, "momentum of a sample's target")
      .range(0, 1)
      .source("ELR's paper, CIFAR-10");
  if (with_global_) {
    params
        .add("local", options_.local,
             "share of the local model's prediction in a target; the rest is the received model's; "
             "at "
             "1: ELR")
        .range(0, 1)
        .source("here; the paper's constants are not known to us");
  }
}

std::unique_ptr<ClientSide> Elr::client_side() const {
  return std::make_unique<ElrClient>(options_);
}

MethodInfo elr_info() {
  return {"elr", "local trainer", "keeps models near what they predicted before memorising",
          [] { return std::make_unique<Elr>(false); }};
}

MethodInfo flr_info() {
  return {"flr", "local trainer", "as elr, with targets from the local and the received model",
          [] { return std::make_unique<Elr>(true); }};
}

}  // namespace winnow
