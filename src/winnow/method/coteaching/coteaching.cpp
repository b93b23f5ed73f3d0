#include "winnow/method/coteaching/coteaching.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "winnow/method/local_training.h"
#include "winnow/train/soft_loss.h"

namespace winnow {
namespace {

// Keeps no memory.
class CoTeachingClient final : public ClientSide {
 public:
  CoTeachingClient(double rate, std::int64_t ramp) : rate_(rate), ramp_(ramp) {}

  Message handle(const Message& task, ClientContext& context) const override {
    context.options().mixup = 0.0;  // a mixture has no loss of its own to be ranked by
    const std::int64_t round = round_of(task);
    const double rate = forget_rate_in(round, rate_, ramp_);
    // Without forgetting nothing is exchanged.
    return rate == 0.0 || context.size() == 0 ? train_twins(task, context)
                                              : exchange(task, round, rate, context);
  }

 private:
  static Message exchange(const Message& task, std::int64_t round, double rate,
                          ClientContext& context) {
    Lane& lane = context.lane();
    const TrainKey key = train_key(context, round);
    const Plan all = make_plan(context.local_set(), context.options(), lane.augment(), key);
    std::vector<bool> idle;
    std::vector<std::int64_t> counts;
    for (const Plan::Batch& batch : all.batches) {
      const std::int64_t count = passed_on(batch.size, rate);
      idle.push_back(count == 0);
      if (count > 0) {
        counts.push_back(count);
      }
    }
    const CoTeachingObjective objective(
        fill(lane, "coteaching.counts", at::tensor(counts, at::kLong)), context.options());
    lane.begin({task.get<State>("model"), task.get<State>("second")}, key);
    take_steps(without(all, idle), objective, stepping(context.options(), round, {0, 1}), context);
    return twin_reply(finished_model(lane, 0), finished_model(lane, 1), context);
  }

  double rate_;
  std::int64_t ramp_;
};

}  // namespace

double forget_rate_in(std::int64_t round, double rate, std::int64_t ramp) {
  if (round >= ramp) {
    return rate;
  }
  return round == 0 ? 0.0 : rate * static_cast<double>(round) / static_cast<double>(ramp - 1);
}

std::int64_t passed_on(std::int64_t batch, double rate) {
  // The small addition keeps 0.7 * 10 at 7.
  return static_cast<std::int64_t>(std::floor((1.0 - rate) * static_cast<double>(batch) + 1e-9));
}

std::pair<at::Tensor, at::Tensor> exchanged_losses(const at::Tensor& first,
                                                   const at::Tensor& second,
                                                   const at::Tensor& count) {
  return {chosen_mean(first, smallest(second, count)), chosen_mean(second, smallest(first, count))};
}

CoTeachingObjective::CoTeachingObjective(at::Tensor counts, const TrainOptions& options)
    : counts_(std::move(counts)),
      label_smoothing_(options.label_smoothing),
      temperature_(options.temperature) {}

at::Tensor CoTeachingObjective::loss(const Batch& batch, const Models& models) const {
  const auto losses = [&](std::size_t model) {
    return smoothed_cross_entropies(models.logits(model, batch.images), batch.labels,
                                    label_smoothing_, temperature_);
  };
  const auto [first, second] =
      exchanged_losses(losses(0), losses(1), counts_.index_select(0, batch.step));
  return first + second;
}

std::string CoTeachingObjective::signature() const {
  return fmt::format("co-teaching {} {}", label_smoothing_, temperature_);
}

void CoTeaching::declare(Params& params) {
  params
      .add("forget_rate", forget_rate_,
           "share of every batch that is left out in the end; 0 trains two FedAvg models")
      .range(0, 1)
      .source("FedRN's comparison; about the share of wrong labels");
  params.add("ramp", ramp_, "rounds until forget_rate is reached, in a straight line from 0")
      .at_least(0)
      .source("FedRN's comparison");
}

std::unique_ptr<ClientSide> CoTeaching::client_side() const {
  return std::make_unique<CoTeachingClient>(forget_rate_, ramp_);
}

void CoTeaching::play(std::int64_t round, Server& server) {
  TwinMethod::play(round, server);
  server.notes["forget_rate"] = forget_rate_in(round, forget_rate_, ramp_);
}

MethodInfo coteaching_info() {
  return {"coteaching", "local trainer",
          "two models that choose samples with a small loss for each other",
          [] { return std::make_unique<CoTeaching>(); }};
}

}  // namespace winnow
