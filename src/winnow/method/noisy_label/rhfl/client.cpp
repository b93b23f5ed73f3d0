#include "winnow/method/noisy_label/rhfl/client.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"
#include "winnow/base/random.h"
#include "winnow/method/local_training.h"
#include "winnow/method/noisy_label/rhfl/arithmetic.h"

namespace winnow::rhfl {
namespace {

constexpr const char* kPublicSteps = "public_steps";

class RhflLoss final : public Objective {
 public:
  RhflLoss(double alpha, double beta) : alpha_(alpha), beta_(beta) {}

  at::Tensor loss(const Batch& batch, const Models& models) const override {
    const at::Tensor logits = models.logits(0, batch.images);
    return symmetric_cross_entropies(logits, batch.labels, alpha_, beta_).mean();
  }
  std::string signature() const override {
    return fmt::format("symmetric cross-entropy {} {}", alpha_, beta_);
  }

 private:
  double alpha_;
  double beta_;
};

// Towards a table of probabilities, a row for each entry of the plan.
class Distillation final : public Objective {
 public:
  explicit Distillation(at::Tensor target) : target_(std::move(target)) {}

  at::Tensor loss(const Batch& batch, const Models& models) const override {
    return distillation_loss(models.logits(0, batch.images),
                             target_.index_select(0, batch.entries));
  }
  std::string signature() const override { return "distillation"; }
  bool reads_entries() const override { return true; }

 private:
  at::Tensor target_;
};

State own_model(ClientContext& context) {
  if (!context.own_model().defined()) {
    throw Error(ErrorKind::peer,
                fmt::format("client {} was asked for its model before it has one", context.id()));
  }
  return {context.layout(), context.own_model().to(context.feed().device())};
}

}  // namespace

std::int64_t local_epochs(std::int64_t public_images, std::int64_t samples) {
  return std::max<std::int64_t>(1, public_images / std::max<std::int64_t>(1, samples));
}

Message Client::handle(const Message& task, ClientContext& context) const {
  if (task.kind() == "pretrain") {
    const auto id = static_cast<std::uint64_t>(context.id());
    const State fresh = context.initial(stream_key(context.seed(), "rhfl model", {id}));
    return train(fresh, options_.pretrain_epochs, 0, 0, context);
  }
  if (task.kind() == "probabilities") {
    return predict(task.get<std::uint32_t>("batch"), context);
  }
  if (task.kind() == "learn") {
    return learn(task, context);
  }
  const std::int64_t round = round_of(task);
  const std::int64_t epochs =
      options_.local_epochs > 0
          ? options_.local_epochs
          : local_epochs(context.public_feed().images().size(0), context.size());
  return train(own_model(context), epochs, round, round + 1, context);
}

// The engine looks at the own model. One that diverged is kept, so it need not be finite.
void Client::check_memory(ClientContext& context) const {
  if (const auto steps = context.archive().find(kPublicSteps)) {
    steps->count();
  }
}

Message Client::train(const State& start, std::int64_t epochs, std::int64_t round,
                      std::int64_t key_round, ClientContext& context) const {
  Trainer& trainer = context.trainer();
  TrainOptions options = context.options();
  options.epochs = epochs;
  options.batch_size = options_.batch_size;
  options.mixup = 0.0;
  const TrainKey key{context.seed(), key_round, context.id()};
  const Plan plan = make_plan(context.local_set(), options, context.augment(), key);
  const Stepping how = options_.optimiser == Optimizer::sgd ? stepping(options, round) : adam();
  trainer.begin({start}, key);
  trainer.take_steps(plan, RhflLoss(options_.alpha, options_.beta), how);
  const State model = trainer.model();
  Archive& archive = context.archive();
  context.own_model() = model.flat;
  trainer.count_earlier(archive.values.value(kPublicSteps, std::int64_t{0}));
  archive.values.erase(kPublicSteps);
  return Message("trained").set("loss", own_loss(model, context));
}

double Client::own_loss(const State& model, ClientContext& context) const {
  const at::Tensor logits = context.logits(model, options_.batch_size);
  return symmetric_cross_entropies(logits, context.labels_tensor(), options_.alpha, options_.beta)
      .to(at::kDouble)
      .mean()
      .item<double>();
}

Plan Client::public_plan(std::int64_t batch, const ClientContext& context) const {
  const std::int64_t images = context.public_feed().images().size(0);
  const std::int64_t start = batch * options_.public_batch;
  const std::int64_t size = std::min(options_.public_batch, images - start);
  if (size <= 0) {
    throw Error(
        ErrorKind::peer,
        fmt::format("public batch {} was asked for, there are only {} images", batch, images));
  }
  Plan plan;
  plan.batches = {{0, size, true}};
  plan.index = at::arange(start, start + size, at::kLong);
  plan.place = at::arange(size, at::kLong);
  plan.label = at::zeros({size}, at::kLong);
  return plan;
}

Message Client::predict(std::int64_t batch, ClientContext& context) const {
  const Plan plan = public_plan(batch, context);
  Scorer& scorer = context.scorer();
  scorer.load(own_model(context));
  const std::span<const std::int64_t> samples(plan.index.data_ptr<std::int64_t>(),
                                              static_cast<std::size_t>(plan.entries()));
  const at::Tensor p = scorer.logits(context.public_feed(), samples, options_.public_batch)
                           .softmax(1)
                           .cpu()
                           .contiguous();
  const auto* first = p.data_ptr<float>();
  return Message("probabilities_done")
      .set("probabilities", std::vector<float>(first, first + p.numel()));
}

Message Client::learn(const Message& task, ClientContext& context) const {
  const auto batch = static_cast<std::int64_t>(task.get<std::uint32_t>("batch"));
  const std::int64_t round = round_of(task);
  const auto& values = task.get<std::vector<float>>("target");
  const Plan plan = public_plan(batch, context);
  const auto count = std::ssize(values);
  if (count == 0 || count % plan.entries() != 0) {
    throw Error(ErrorKind::peer, fmt::format("message 'learn' holds {} values for {} images", count,
                                             plan.entries()));
  }
  Trainer& trainer = context.trainer();
  const std::int64_t classes = count / plan.entries();
  at::Tensor target = trainer.buffer("rhfl target", plan.entries(), {classes}, at::kFloat);
  target.narrow(0, 0, plan.entries()).copy_(at::tensor(values).view({-1, classes}));
  // Dropout differs from batch to batch; the optimiser is fresh in each (spec: baselines 17 b).
  const std::uint64_t seed =
      stream_key(context.seed(), "rhfl learn", {static_cast<std::uint64_t>(batch)});
  trainer.begin({own_model(context)}, {seed, round, context.id()});
  trainer.run(plan, Distillation(target), adam(), &context.public_feed());
  Archive& archive = context.archive();
  context.own_model() = trainer.model().flat;
  archive.values[kPublicSteps] = archive.values.value(kPublicSteps, std::int64_t{0}) + 1;
  return Message("learn_done");
}

}  // namespace winnow::rhfl
