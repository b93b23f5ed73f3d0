#include "winnow/method/noisy_label/fednoro/fednoro.h"

#include <utility>

#include "winnow/method/noisy_label/fednoro/arithmetic.h"
#include "winnow/method/noisy_label/fednoro/client.h"

namespace winnow {

void FedNoRo::declare(Params& params) {
  params
      .add("warmup", options_.warmup,
           "rounds of the first stage, in which all clients train with adjusted logits")
      .at_least(1)
      .source("released code");
  params
      .add("a", options_.a,
           "weight of the global model's predictions in the training of noisy clients once the "
           "ramp ends; 0: labels only")
      .range(0, 1)
      .source("released code");
  params
      .add("ramp_begin", options_.ramp_begin,
           "round at which the weight of the global model's predictions begins to rise")
      .at_least(0)
      .source("released code");
  params
      .add("ramp_end", options_.ramp_end,
           "round from which the weight of the global model's predictions is a")
      .at_least(0)
      .source("released code, for 100 rounds");
  params.add("temperature", options_.temperature, "temperature of the global model's predictions")
      .above(0)
      .source("released code");
  params
      .add("distance_weights", options_.distance_weights,
           "give models of noisy clients less weight the farther they are from those of clean "
           "ones; false: weight by samples alone")
      .source("paper");
}

std::unique_ptr<ClientSide> FedNoRo::client_side() const {
  return std::make_unique<fednoro::DistillingClient>(options_.temperature);
}

std::vector<FieldRule> FedNoRo::noisy_asks() const {
  return {field::number("weight", "the weight of the global model's predictions in this round")
              .between(0, 1)};
}

void FedNoRo::fill_noisy(Message& task, std::int64_t round, Json& notes) const {
  const double weight =
      fednoro::distillation_weight(options_.a, round, options_.ramp_begin, options_.ramp_end);
  notes["distillation"] = weight;
  task.set("weight", weight);
}

State FedNoRo::fuse(HeldModels held, const std::set<std::int64_t>& noisy) const {
  return fednoro::by_distance(held, options_.distance_weights ? noisy : std::set<std::int64_t>());
}

MethodInfo fednoro_info() {
  return {
      .name = "fednoro",
      .group = "noisy-label",
      .summary = "finds noisy clients by class-wise losses, distils to them",
      .make = [] { return std::make_unique<FedNoRo>(); },
      .smoke = Json::object(
          {{"rounds", 5}, {"method.warmup", 2}, {"method.ramp_begin", 2}, {"method.ramp_end", 4}})};
}

}  // namespace winnow
