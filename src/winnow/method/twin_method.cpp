#include "winnow/method/twin_method.h"

#include <ATen/ATen.h>

#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/random.h"
#include "winnow/federation/aggregation.h"
#include "winnow/method/round.h"

namespace winnow {
namespace {

constexpr const char* kSecond = "second";

}  // namespace

std::vector<Exchange> TwinMethod::exchanges(const Setting& /*setting*/) const {
  return {
      {"train",
       {field::round(), field::global_model(), field::model(kSecond, "the second global model")},
       "train_done",
       {field::trained_model().summed(Weighting::samples),
        field::model(kSecond, "its second model after training, which reveals as much as the first")
            .summed(Weighting::samples),
        field::samples()}}};
}

void TwinMethod::play(std::int64_t number, Server& server) {
  Round round(number, server);
  round.chosen = round.draw();
  if (!second_.defined()) {
    if (!server.initial) {
      throw Error(ErrorKind::internal, "a method of two models needs Server::initial");
    }
    second_ = server.initial(stream_key(round.setting.seed, "second model", {})).flat;
  }
  const State second{round.global.layout, second_.to(round.global.flat.device())};
  const auto task = [&](std::int64_t) { return round.task("train").set(kSecond, second); };
  WeightedMean first_mean;
  WeightedMean second_mean;
  if (round.by_sums()) {
    const Sums sums =
        round.ask_for_sums(round.chosen, task, exchanges(round.setting).front().answers,
                           [](std::int64_t, const Message&) { return true; });
    if (round.note_replies()) {
      round.global = sums.mean("model");
      second_ = sums.mean(kSecond).flat;
    }
    return;
  }
  round.ask(round.chosen, task, exchanges(round.setting), [&](std::int64_t, const Message& reply) {
    const auto samples = static_cast<double>(reply.get<std::uint32_t>("samples"));
    first_mean.add(reply.get<State>("model"), samples);
    second_mean.add(reply.get<State>(kSecond), samples);
  });
  if (round.note_replies()) {
    round.global = first_mean.finish();
    second_ = second_mean.finish().flat;
  }
}

std::map<std::string, State> TwinMethod::also_measured(const Setting& setting) const {
  std::map<std::string, State> models;
  if (second_.defined()) {
    models.emplace("second_accuracy", State{setting.layout, second_});
  }
  return models;
}

void TwinMethod::save(Archive& archive) const {
  archive.put(kSecond, second_);
}

void TwinMethod::load(const Archive& archive) {
  second_ = archive.model(kSecond);
}

Message twin_reply(State model, State second, const ClientContext& context) {
  return Message("train_done")
      .set("model", std::move(model))
      .set(kSecond, std::move(second))
      .set("samples", static_cast<std::uint32_t>(context.size()));
}

Message train_twins(const Message& task, ClientContext& context) {
  const std::int64_t round = round_of(task);
  State model = context.train(task.get<State>("model"), round, {}).state;
  State second = context.train(task.get<State>(kSecond), round, {}).state;
  return twin_reply(std::move(model), std::move(second), context);
}

}  // namespace winnow
