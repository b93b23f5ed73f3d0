#include "winnow/method/trainer/coteaching_plus/coteaching_plus.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "winnow/method/local_training.h"
#include "winnow/method/trainer/coteaching/coteaching.h"
#include "winnow/train/soft_loss.h"

namespace winnow {
namespace {

constexpr double kNoCandidate = 1e30;  // larger than any loss

// Remembers which samples were passed to the first model in the last epoch.
class CoTeachingPlusClient final : public ClientSide {
 public:
  CoTeachingPlusClient(double rate, std::int64_t ramp, std::int64_t warmup)
      : rate_(rate), ramp_(ramp), warmup_(warmup) {}

  Message handle(const Message& task, ClientContext& context) const override {
    context.options().mixup = 0.0;  // a mixture has no loss of its own to be ranked by
    const std::int64_t round = round_of(task);
    if (round < warmup_ || context.size() == 0) {
      context.trace().selected.reset();
      return train_twins(task, context);
    }
    Trainer& trainer = context.trainer();
    const TrainKey key = context.key(round);
    const Plan plan = make_plan(context.local_set(), context.options(), context.augment(), key);
    const double keep = 1.0 - coteaching::forget_rate_in(round, rate_, ramp_);
    const CoTeachingPlusBuffers buffers{
        .keep = fill(trainer, "coteaching_plus.keep", at::full({1}, keep, at::kFloat)),
        .place = fill(trainer, "coteaching_plus.place", plan.place),
        .passed = fill(trainer, "coteaching_plus.passed", at::zeros({context.size()}, at::kByte))};
    trainer.begin({task.get<State>("model"), task.get<State>("second")}, key);
    trainer.take_steps(plan, CoTeachingPlusObjective(buffers, context.options()),
                       stepping(context.options(), round, {0, 1}));
    const at::Tensor passed = first_rows(buffers.passed, context.size());
    const auto* first = passed.data_ptr<std::uint8_t>();
    context.trace().selected.emplace(first, first + passed.numel());
    return twin_reply(trainer.finished_model(0), trainer.finished_model(1), context);
  }

 private:
  double rate_;
  std::int64_t ramp_;
  std::int64_t warmup_;
};

}  // namespace

at::Tensor disagreement(const at::Tensor& first, const at::Tensor& second) {
  const at::Tensor differ = first.argmax(1).ne(second.argmax(1));
  return differ.logical_or(differ.any().logical_not()).to(at::kFloat);
}

at::Tensor passed_among(const at::Tensor& losses, const at::Tensor& candidates,
                        const at::Tensor& keep) {
  // The small addition keeps 0.7 * 10 at 7 in single precision too.
  const at::Tensor count = (keep * candidates.sum() + 1e-4).floor().clamp_min(1);
  return smallest(losses.detach() + (1 - candidates) * kNoCandidate, count);
}

at::Tensor CoTeachingPlusObjective::loss(const Batch& batch, const Models& models) const {
  const at::Tensor first = models.logits(0, batch.images);
  const at::Tensor second = models.logits(1, batch.images);
  const auto losses = [&](const at::Tensor& logits) {
    return smoothed_cross_entropies(logits, batch.labels, label_smoothing_, temperature_);
  };
  const at::Tensor candidates = disagreement(first.detach(), second.detach());
  const at::Tensor first_losses = losses(first);
  const at::Tensor second_losses = losses(second);
  const at::Tensor keep = buffers_.keep.narrow(0, 0, 1);
  const at::Tensor to_first = passed_among(second_losses, candidates, keep);
  const at::Tensor to_second = passed_among(first_losses, candidates, keep);
  const at::Tensor places = buffers_.place.index_select(0, batch.entries);
  buffers_.passed.index_copy_(0, places, to_first.to(at::kByte));
  return chosen_mean(first_losses, to_first) + chosen_mean(second_losses, to_second);
}

std::string CoTeachingPlusObjective::signature() const {
  return fmt::format("co-teaching+ {} {}", label_smoothing_, temperature_);
}

void CoTeachingPlus::declare(Params& params) {
  params
      .add("forget_rate", forget_rate_,
           "share of the samples in dispute that is left out as noisy once the ramp ends")
      .range(0, 1)
      .source("as coteaching; about the share of wrong labels");
  params
      .add("ramp", ramp_,
           "rounds in which the share that is left out rises linearly from 0 to forget_rate")
      .at_least(0)
      .source("as coteaching");
  params.add("warmup", warmup_, "rounds at the start that train both models as FedAvg does")
      .at_least(0)
      .source("here; the paper: 20 epochs");
}

void CoTeachingPlus::check(const Setting& setting) const {
  check_warmup(warmup_, setting);
}

std::unique_ptr<ClientSide> CoTeachingPlus::client_side() const {
  return std::make_unique<CoTeachingPlusClient>(forget_rate_, ramp_, warmup_);
}

void CoTeachingPlus::play(std::int64_t number, Server& server) {
  TwinMethod::play(number, server);
  server.notes["forget_rate"] = coteaching::forget_rate_in(number, forget_rate_, ramp_);
}

MethodInfo coteaching_plus_info() {
  return {.name = "coteaching_plus",
          .group = "local trainer",
          .summary = "Co-teaching on the samples where the two models disagree",
          .make = [] { return std::make_unique<CoTeachingPlus>(); },
          .smoke = Json::object({{"rounds", 4}, {"method.warmup", 1}, {"method.ramp", 2}})};
}

}  // namespace winnow
