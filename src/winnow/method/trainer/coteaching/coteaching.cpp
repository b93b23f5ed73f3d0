#include "winnow/method/trainer/coteaching/coteaching.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "winnow/method/local_training.h"
#include "winnow/train/soft_loss.h"

namespace winnow {
namespace {

// Remembers which samples were passed to the first model in the last epoch.
class CoTeachingClient final : public ClientSide {
 public:
  CoTeachingClient(double rate, std::int64_t ramp) : rate_(rate), ramp_(ramp) {}

  Message handle(const Message& task, ClientContext& context) const override {
    context.options().mixup = 0.0;  // a mixture has no loss of its own to be ranked by
    const std::int64_t round = round_of(task);
    const double rate = coteaching::forget_rate_in(round, rate_, ramp_);
    // Without forgetting nothing is exchanged.
    if (rate == 0.0 || context.size() == 0) {
      context.trace().selected.reset();
      return train_twins(task, context);
    }
    return exchange(task, round, rate, context);
  }

 private:
  static Message exchange(const Message& task, std::int64_t round, double rate,
                          ClientContext& context) {
    Trainer& trainer = context.trainer();
    const TrainKey key = context.key(round);
    const Plan all = make_plan(context.local_set(), context.options(), context.augment(), key);
    std::vector<bool> idle;
    std::vector<std::int64_t> counts;
    for (const Plan::Batch& batch : all.batches) {
      const std::int64_t count = coteaching::passed_on(batch.size, rate);
      idle.push_back(count == 0);
      if (count > 0) {
        counts.push_back(count);
      }
    }
    const Plan plan = without(all, idle);
    const coteaching::Buffers buffers{
        .counts = fill(trainer, "coteaching.counts", at::tensor(counts, at::kLong)),
        .place = fill(trainer, "coteaching.place", plan.place),
        .passed = fill(trainer, "coteaching.passed", at::zeros({context.size()}, at::kByte))};
    trainer.begin({task.get<State>("model"), task.get<State>("second")}, key);
    trainer.take_steps(plan, coteaching::Objective(buffers, context.options()),
                       stepping(context.options(), round, {0, 1}));
    remember(buffers, all, rate, context);
    return twin_reply(trainer.finished_model(0), trainer.finished_model(1), context);
  }

  // A sample is in one batch of every epoch, so the last epoch has overwritten the ones before,
  // except in batches of which nothing is passed on.
  static void remember(const coteaching::Buffers& buffers, const Plan& all, double rate,
                       ClientContext& context) {
    const at::Tensor passed = first_rows(buffers.passed, context.size());
    const auto* first = passed.data_ptr<std::uint8_t>();
    std::vector<bool> selected(first, first + passed.numel());
    const std::int64_t epochs = context.options().epochs;
    const Plan last = all.epoch(epochs - 1, epochs);
    const auto* place = last.place.data_ptr<std::int64_t>();
    for (const Plan::Batch& batch : last.batches) {
      if (coteaching::passed_on(batch.size, rate) == 0) {
        for (std::int64_t i = batch.start; i < batch.start + batch.size; ++i) {
          selected[static_cast<std::size_t>(place[i])] = false;
        }
      }
    }
    context.trace().selected = std::move(selected);
  }

  double rate_;
  std::int64_t ramp_;
};

}  // namespace

double coteaching::forget_rate_in(std::int64_t round, double rate, std::int64_t ramp) {
  if (round >= ramp) {
    return rate;
  }
  return round == 0 ? 0.0 : rate * static_cast<double>(round) / static_cast<double>(ramp - 1);
}

std::int64_t coteaching::passed_on(std::int64_t batch, double rate) {
  // The small addition keeps 0.7 * 10 at 7.
  return static_cast<std::int64_t>(std::floor((1.0 - rate) * static_cast<double>(batch) + 1e-9));
}

coteaching::Exchanged coteaching::exchanged_losses(const at::Tensor& first,
                                                   const at::Tensor& second,
                                                   const at::Tensor& count) {
  at::Tensor passed = smallest(second, count);
  return {chosen_mean(first, passed), chosen_mean(second, smallest(first, count)),
          std::move(passed)};
}

coteaching::Objective::Objective(coteaching::Buffers buffers, const TrainOptions& options)
    : buffers_(std::move(buffers)),
      label_smoothing_(options.label_smoothing),
      temperature_(options.temperature) {}

at::Tensor coteaching::Objective::loss(const Batch& batch, const Models& models) const {
  const auto losses = [&](std::size_t model) {
    return smoothed_cross_entropies(models.logits(model, batch.images), batch.labels,
                                    label_smoothing_, temperature_);
  };
  const coteaching::Exchanged exchanged = coteaching::exchanged_losses(
      losses(0), losses(1), buffers_.counts.index_select(0, batch.step));
  const at::Tensor places = buffers_.place.index_select(0, batch.entries);
  buffers_.passed.index_copy_(0, places, exchanged.passed.to(at::kByte));
  return exchanged.first + exchanged.second;
}

std::string coteaching::Objective::signature() const {
  return fmt::format("co-teaching {} {}", label_smoothing_, temperature_);
}

void CoTeaching::declare(Params& params) {
  params
      .add(
          "forget_rate", forget_rate_,
          "share of every batch that is left out as noisy once the ramp ends; 0: two FedAvg models")
      .range(0, 1)
      .source("FedRN's comparison; about the share of wrong labels");
  params
      .add("ramp", ramp_,
           "rounds in which the share that is left out rises linearly from 0 to forget_rate")
      .at_least(0)
      .source("FedRN's comparison");
}

std::unique_ptr<ClientSide> CoTeaching::client_side() const {
  return std::make_unique<CoTeachingClient>(forget_rate_, ramp_);
}

void CoTeaching::play(std::int64_t round, Server& server) {
  TwinMethod::play(round, server);
  server.notes["forget_rate"] = coteaching::forget_rate_in(round, forget_rate_, ramp_);
}

MethodInfo coteaching_info() {
  return {.name = "coteaching",
          .group = "local trainer",
          .summary = "two models choose small-loss samples for each other",
          .make = [] { return std::make_unique<CoTeaching>(); },
          .smoke = Json::object({{"rounds", 4}, {"method.ramp", 2}})};
}

}  // namespace winnow
