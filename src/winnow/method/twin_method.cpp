#include "winnow/method/twin_method.h"

#include <ATen/ATen.h>

#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/random.h"
#include "winnow/federation/aggregation.h"
#include "winnow/federation/selection.h"
#include "winnow/method/base_method.h"

namespace winnow {
namespace {

constexpr const char* kSecond = "second";

}  // namespace

std::vector<Schema> TwinMethod::schemas() const {
  return {
      {"train",
       {{"round", FieldType::u32}, {"model", FieldType::state}, {kSecond, FieldType::state}}},
      {"train_done",
       {{"model", FieldType::state}, {kSecond, FieldType::state}, {"samples", FieldType::u32}}}};
}

void TwinMethod::play(std::int64_t round, Server& server) {
  const std::vector<std::int64_t> pool = selectable_clients(server.fleet);
  const std::vector<std::int64_t> chosen = select_uniform(
      pool, participants(server.setting.fraction, std::ssize(pool)), server.setting.seed, round);
  if (!second_.defined()) {
    if (!server.initial) {
      throw Error(ErrorKind::internal, "a method of two models needs Server::initial");
    }
    second_ = server.initial(stream_key(server.setting.seed, "second model", {})).flat;
  }
  const State second{server.global.layout, second_.to(server.global.flat.device())};
  std::vector<Order> orders;
  orders.reserve(chosen.size());
  for (const std::int64_t client : chosen) {
    orders.push_back({client, Message("train")
                                  .set("round", static_cast<std::uint32_t>(round))
                                  .set("model", server.global)
                                  .set(kSecond, second)});
  }
  WeightedMean first_mean;
  WeightedMean second_mean;
  std::vector<std::int64_t> rejected;
  server.fleet.ask(orders, [&](std::int64_t client, const Message& reply) {
    const auto& one = reply.get<State>("model");
    const auto& other = reply.get<State>(kSecond);
    if (!all_finite(one) || !all_finite(other)) {
      rejected.push_back(client);
      return;
    }
    const auto samples = static_cast<double>(reply.get<std::uint32_t>("samples"));
    first_mean.add(one, samples);
    second_mean.add(other, samples);
  });
  note_replies(round, chosen, rejected, server.notes);
  server.global = first_mean.finish();
  second_ = second_mean.finish().flat;
}

std::map<std::string, State> TwinMethod::also_measured(const Setting& setting) const {
  std::map<std::string, State> models;
  if (second_.defined()) {
    models.emplace("second_accuracy", State{setting.layout, second_});
  }
  return models;
}

void TwinMethod::save(Archive& archive) const {
  if (second_.defined()) {
    archive.tensors[kSecond] = second_;
  }
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
